// SPDX-License-Identifier: GPL-2.0
/*
 * A disk in memory with the hooks of nvidia-fs.ko, as a storage driver with
 * hooks has them: for each request it asks for bus addresses, which are
 * physical ones here, and copies. The parameters `direct` and `copied` count
 * KiB that went by the hooks, and by the request's own pages.
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/scatterlist.h>
#include <linux/srcu.h>
#include <linux/version.h>
#include <linux/vmalloc.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0)
#define BY_ITERATOR 1
#include <linux/blk-mq-dma.h>
#define HOOK(name) nvme_v2_##name##_nvfs_dma_ops
#define FEATURES_NEEDED 0x60
#else
#define BY_ITERATOR 0
#define HOOK(name) nvme_v1_##name##_nvfs_dma_ops
#define FEATURES_NEEDED 0x03
#endif

#define MOST_SEGMENTS 127

#if BY_ITERATOR
struct hooks {
  u64 features;
  int (*start)(struct request* rq, struct device* dev, struct dma_iova_state* state, struct blk_dma_iter* iter,
               void** cookie);
  int (*next)(struct request* rq, struct device* dev, struct dma_iova_state* state, struct blk_dma_iter* iter);
  int (*unmap)(struct device* dev, void* cookie, dma_addr_t address, size_t size, enum dma_data_direction dir);
};
#else
struct hooks {
  u64 features;
  int (*prepare)(struct request_queue* queue, struct request* rq, struct scatterlist* list);
  int (*map)(struct device* dev, struct scatterlist* list, int count, enum dma_data_direction dir,
             unsigned long attributes);
  int (*unmap)(struct device* dev, struct scatterlist* list, int count, enum dma_data_direction dir);
};
#endif

static unsigned long mib = 64;
module_param(mib, ulong, 0444);
static atomic_t direct = ATOMIC_INIT(0);
module_param_named(direct, direct.counter, int, 0444);
static atomic_t copied = ATOMIC_INIT(0);
module_param_named(copied, copied.counter, int, 0444);

static struct hooks* hooks;
static DEFINE_MUTEX(one); /* one request at a time, and none while the hooks change */
static void* store;
static struct pci_dev* peer;
static struct gendisk* disk;
static struct blk_mq_tag_set tags;
static struct platform_device* device;

int HOOK(register)(struct hooks* given);
void HOOK(unregister)(void);

int HOOK(register)(struct hooks* given) {
  if ((given->features & FEATURES_NEEDED) != FEATURES_NEEDED) return -EOPNOTSUPP;
  mutex_lock(&one);
  hooks = given;
  mutex_unlock(&one);
  return 0;
}
#if BY_ITERATOR
EXPORT_SYMBOL_GPL(nvme_v2_register_nvfs_dma_ops);
#else
EXPORT_SYMBOL_GPL(nvme_v1_register_nvfs_dma_ops);
#endif

void HOOK(unregister)(void) {
  mutex_lock(&one);
  hooks = NULL;
  mutex_unlock(&one);
}
#if BY_ITERATOR
EXPORT_SYMBOL_GPL(nvme_v2_unregister_nvfs_dma_ops);
#else
EXPORT_SYMBOL_GPL(nvme_v1_unregister_nvfs_dma_ops);
#endif

static void* carry(void* at, void* bytes, size_t length, bool is_write, atomic_t* counter) {
  if (is_write)
    memcpy(at, bytes, length);
  else
    memcpy(bytes, at, length);
  atomic_add(length >> 10, counter);
  return at + length;
}

/* 1: all of it went by the hooks. 0: it has no pages of theirs. */
#if BY_ITERATOR
static int by_hooks(struct request* rq, void* at, bool is_write) {
  struct dma_iova_state state = {};
  struct blk_dma_iter iter = {};
  struct {
    dma_addr_t address;
    size_t length;
  } mapped[MOST_SEGMENTS];
  void* cookie = NULL;
  size_t left = blk_rq_bytes(rq);
  int count = 0, i, more;

  more = hooks->start(rq, &peer->dev, &state, &iter, &cookie);
  if (more <= 0) return more;
  while (more > 0 && count < MOST_SEGMENTS) {
    at = carry(at, phys_to_virt(iter.addr), iter.len, is_write, &direct);
    mapped[count].address = iter.addr;
    mapped[count++].length = iter.len;
    left -= iter.len;
    more = left ? hooks->next(rq, &peer->dev, &state, &iter) : 0;
  }
  for (i = 0; i < count; i++) hooks->unmap(&peer->dev, cookie, mapped[i].address, mapped[i].length, rq_dma_dir(rq));
  return left ? -EIO : 1;
}
#else
static struct scatterlist list[MOST_SEGMENTS + 1];

static int by_hooks(struct request* rq, void* at, bool is_write) {
  struct scatterlist* entry;
  int count, i;

  sg_init_table(list, MOST_SEGMENTS + 1);
  count = hooks->prepare(rq->q, rq, list);
  if (count <= 0) return count;
  if (hooks->map(&peer->dev, list, count, rq_dma_dir(rq), 0) != count) return -EIO;
  for_each_sg(list, entry, count, i) at =
      carry(at, phys_to_virt(sg_dma_address(entry)), sg_dma_len(entry), is_write, &direct);
  hooks->unmap(&peer->dev, list, count, rq_dma_dir(rq));
  return 1;
}
#endif

static blk_status_t serve(struct request* rq) {
  void* at = store + (blk_rq_pos(rq) << SECTOR_SHIFT);
  bool is_write = req_op(rq) == REQ_OP_WRITE;
  struct req_iterator iterator;
  struct bio_vec part;
  int done = 0;

  if (req_op(rq) != REQ_OP_READ && !is_write) return req_op(rq) == REQ_OP_FLUSH ? BLK_STS_OK : BLK_STS_NOTSUPP;
  if (hooks) done = by_hooks(rq, at, is_write);
  if (done) return done > 0 ? BLK_STS_OK : BLK_STS_IOERR;
  rq_for_each_segment(part, rq, iterator) {
    void* bytes = kmap_local_page(part.bv_page);

    at = carry(at, bytes + part.bv_offset, part.bv_len, is_write, &copied);
    kunmap_local(bytes);
  }
  return BLK_STS_OK;
}

static blk_status_t queue_rq(struct blk_mq_hw_ctx* context, const struct blk_mq_queue_data* data) {
  blk_status_t status;

  blk_mq_start_request(data->rq);
  mutex_lock(&one);
  status = serve(data->rq);
  mutex_unlock(&one);
  blk_mq_end_request(data->rq, status);
  return BLK_STS_OK;
}

static const struct blk_mq_ops queue_operations = {.queue_rq = queue_rq};
static const struct block_device_operations disk_operations = {.owner = THIS_MODULE};

static struct gendisk* make_disk(void) {
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
  struct queue_limits limits = {
      .logical_block_size = 512,
      .max_hw_sectors = 2048,
      .max_segments = MOST_SEGMENTS,
      .max_segment_size = 65536,
  };

  return blk_mq_alloc_disk(&tags, &limits, NULL);
#else
  struct gendisk* made = blk_mq_alloc_disk(&tags, NULL);

  if (!IS_ERR(made)) {
    blk_queue_max_hw_sectors(made->queue, 2048);
    blk_queue_max_segments(made->queue, MOST_SEGMENTS);
  }
  return made;
#endif
}

/* Below a device with a driver, so that sysfs tells which module drives it. */
static int disk_probe(struct platform_device* parent) {
  int ret;

  tags.ops = &queue_operations;
  tags.nr_hw_queues = 1;
  tags.queue_depth = 64;
  tags.numa_node = NUMA_NO_NODE;
  tags.flags = BLK_MQ_F_BLOCKING;
  ret = blk_mq_alloc_tag_set(&tags);
  if (ret) return ret;
  disk = make_disk();
  if (IS_ERR(disk)) {
    ret = PTR_ERR(disk);
    goto free_tags;
  }
  disk->fops = &disk_operations;
  strscpy(disk->disk_name, "nvfsdisk0", sizeof(disk->disk_name));
  set_capacity(disk, mib << (20 - SECTOR_SHIFT));
  ret = device_add_disk(&parent->dev, disk, NULL);
  if (!ret) return 0;
  put_disk(disk);
free_tags:
  blk_mq_free_tag_set(&tags);
  return ret;
}

static void end_disk(void) {
  del_gendisk(disk);
  put_disk(disk);
  blk_mq_free_tag_set(&tags);
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
static void disk_remove(struct platform_device* parent) {
  end_disk();
}
#else
static int disk_remove(struct platform_device* parent) {
  end_disk();
  return 0;
}
#endif

static struct platform_driver driver = {
    .driver = {.name = "nvfsdisk"},
    .probe = disk_probe,
    .remove = disk_remove,
};

/* The module wants a PCI device for a peer: any drive or card will do. */
static struct pci_dev* find_peer(void) {
  struct pci_dev* found = NULL;

  while ((found = pci_get_device(PCI_ANY_ID, PCI_ANY_ID, found))) {
    if (found->class == PCI_CLASS_STORAGE_EXPRESS || (found->class >> 16) == PCI_BASE_CLASS_NETWORK) return found;
  }
  return NULL;
}

static int __init nvfsdisk_init(void) {
  int ret = -ENODEV;

  peer = find_peer();
  if (!peer) return ret;
  ret = -ENOMEM;
  store = vzalloc(mib << 20);
  if (!store) goto put_peer;
  ret = platform_driver_register(&driver);
  if (ret) goto free_store;
  device = platform_device_register_simple("nvfsdisk", PLATFORM_DEVID_NONE, NULL, 0);
  if (!IS_ERR(device)) return 0;
  ret = PTR_ERR(device);
  platform_driver_unregister(&driver);
free_store:
  vfree(store);
put_peer:
  pci_dev_put(peer);
  return ret;
}

static void __exit nvfsdisk_exit(void) {
  platform_device_unregister(device);
  platform_driver_unregister(&driver);
  vfree(store);
  pci_dev_put(peer);
}

module_init(nvfsdisk_init);
module_exit(nvfsdisk_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("disk in memory with the hooks of nvidia-fs");
