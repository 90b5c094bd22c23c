// SPDX-License-Identifier: GPL-2.0
/*
 * Stands in for the GPU's driver before nvidia-fs.ko. Device memory is plain
 * pages in pieces of 64 KiB, which processes map through /dev/stubgpu. Any
 * ioctl of that node frees all that is held, as a driver does whose process
 * has freed its memory. The parameters `live` and `maps` tell what is held.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>

#include "p2p.h"

static unsigned int pieces = 1024;
module_param(pieces, uint, 0444);
static atomic_t live = ATOMIC_INIT(0);
module_param_named(live, live.counter, int, 0444);
static atomic_t maps = ATOMIC_INIT(0);
module_param_named(maps, maps.counter, int, 0444);

struct hold {
  struct nvidia_p2p_page_table table;
  p2p_freed_fn freed;
  void* data;
  struct list_head list;
};

static struct page** memory;
static u8 uuid[16] = "stubgpu";
static LIST_HEAD(holds);
static DEFINE_MUTEX(lock);
static const struct file_operations node_operations;

/* The first piece of a range that one mapping of ours holds as a whole. */
static int first_piece_of(u64 address, u64 length, unsigned long* first) {
  struct vm_area_struct* area;
  int ret = -EINVAL;

  mmap_read_lock(current->mm);
  area = find_vma(current->mm, address);
  if (area && address >= area->vm_start && address + length <= area->vm_end && area->vm_file &&
      area->vm_file->f_op == &node_operations) {
    *first = (area->vm_pgoff << PAGE_SHIFT) / P2P_PAGE_BYTES + (address - area->vm_start) / P2P_PAGE_BYTES;
    ret = 0;
  }
  mmap_read_unlock(current->mm);
  return ret;
}

static void drop(struct hold* hold) {
  unsigned int i;

  for (i = 0; hold->table.pages && i < hold->table.entries; i++) kfree(hold->table.pages[i]);
  kfree(hold->table.pages);
  kfree(hold);
}

static int get_pages(u64 address, u64 length, struct nvidia_p2p_page_table** made, p2p_freed_fn freed, void* data) {
  unsigned long first;
  struct hold* hold;
  unsigned int i;

  if ((address | length) % P2P_PAGE_BYTES || !length || first_piece_of(address, length, &first)) return -EINVAL;
  hold = kzalloc(sizeof(*hold), GFP_KERNEL);
  if (!hold) return -ENOMEM;
  hold->table.version = P2P_PAGE_TABLE_VERSION;
  hold->table.page_size = P2P_PAGE_SIZE_64KB;
  hold->table.gpu_uuid = uuid;
  hold->table.entries = length / P2P_PAGE_BYTES;
  hold->table.pages = kcalloc(hold->table.entries, sizeof(*hold->table.pages), GFP_KERNEL);
  for (i = 0; hold->table.pages && i < hold->table.entries; i++) {
    hold->table.pages[i] = kzalloc(sizeof(**hold->table.pages), GFP_KERNEL);
    if (!hold->table.pages[i]) break;
    hold->table.pages[i]->physical_address = page_to_phys(memory[first + i]);
  }
  if (i < hold->table.entries) {
    drop(hold);
    return -ENOMEM;
  }
  hold->freed = freed;
  hold->data = data;
  mutex_lock(&lock);
  list_add(&hold->list, &holds);
  mutex_unlock(&lock);
  atomic_inc(&live);
  *made = &hold->table;
  return 0;
}

static int put_pages(struct nvidia_p2p_page_table* table) {
  struct hold* hold = container_of(table, struct hold, table);

  if (!table) return 0;
  mutex_lock(&lock);
  list_del(&hold->list);
  mutex_unlock(&lock);
  drop(hold);
  atomic_dec(&live);
  return 0;
}

int nvidia_p2p_get_pages(u64 token, u32 space, u64 address, u64 length, struct nvidia_p2p_page_table** made,
                         p2p_freed_fn freed, void* data) {
  return freed ? get_pages(address, length, made, freed, data) : -EINVAL;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_get_pages);

int nvidia_p2p_get_pages_persistent(u64 address, u64 length, struct nvidia_p2p_page_table** made, u32 flags) {
  return get_pages(address, length, made, NULL, NULL);
}
EXPORT_SYMBOL_GPL(nvidia_p2p_get_pages_persistent);

int nvidia_p2p_put_pages(u64 token, u32 space, u64 address, struct nvidia_p2p_page_table* table) {
  return put_pages(table);
}
EXPORT_SYMBOL_GPL(nvidia_p2p_put_pages);

int nvidia_p2p_put_pages_persistent(u64 address, struct nvidia_p2p_page_table* table, u32 flags) {
  return put_pages(table);
}
EXPORT_SYMBOL_GPL(nvidia_p2p_put_pages_persistent);

/* From within the callback: the table was dropped with its hold. */
int nvidia_p2p_free_page_table(struct nvidia_p2p_page_table* table) {
  return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_free_page_table);

int nvidia_p2p_dma_map_pages(struct pci_dev* peer, struct nvidia_p2p_page_table* table,
                             struct nvidia_p2p_dma_mapping** made) {
  struct nvidia_p2p_dma_mapping* mapping = kzalloc(sizeof(*mapping), GFP_KERNEL);
  unsigned int i;

  if (!mapping) return -ENOMEM;
  mapping->version = P2P_DMA_MAPPING_VERSION;
  mapping->page_size_type = P2P_PAGE_SIZE_64KB;
  mapping->entries = table->entries;
  mapping->pci_dev = peer;
  mapping->dma_addresses = kcalloc(table->entries, sizeof(u64), GFP_KERNEL);
  if (!mapping->dma_addresses) {
    kfree(mapping);
    return -ENOMEM;
  }
  for (i = 0; i < table->entries; i++) mapping->dma_addresses[i] = table->pages[i]->physical_address;
  atomic_inc(&maps);
  *made = mapping;
  return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_dma_map_pages);

int nvidia_p2p_free_dma_mapping(struct nvidia_p2p_dma_mapping* mapping) {
  kfree(mapping->dma_addresses);
  kfree(mapping);
  atomic_dec(&maps);
  return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_free_dma_mapping);

int nvidia_p2p_dma_unmap_pages(struct pci_dev* peer, struct nvidia_p2p_page_table* table,
                               struct nvidia_p2p_dma_mapping* mapping) {
  return nvidia_p2p_free_dma_mapping(mapping);
}
EXPORT_SYMBOL_GPL(nvidia_p2p_dma_unmap_pages);

static int node_mmap(struct file* file, struct vm_area_struct* area) {
  unsigned long first = (area->vm_pgoff << PAGE_SHIFT) / P2P_PAGE_BYTES;
  unsigned long count = (area->vm_end - area->vm_start) / P2P_PAGE_BYTES;
  unsigned long i;

  if (area->vm_start % P2P_PAGE_BYTES || (area->vm_pgoff << PAGE_SHIFT) % P2P_PAGE_BYTES ||
      (area->vm_end - area->vm_start) % P2P_PAGE_BYTES || first + count > pieces)
    return -EINVAL;
  for (i = 0; i < count; i++) {
    if (remap_pfn_range(area, area->vm_start + i * P2P_PAGE_BYTES, page_to_pfn(memory[first + i]), P2P_PAGE_BYTES,
                        area->vm_page_prot))
      return -EAGAIN;
  }
  return 0;
}

static long node_ioctl(struct file* file, unsigned int number, unsigned long argument) {
  struct hold *hold, *next;
  LIST_HEAD(gone);

  mutex_lock(&lock);
  list_for_each_entry_safe(hold, next, &holds, list) {
    if (hold->freed) list_move(&hold->list, &gone);
  }
  mutex_unlock(&lock);
  list_for_each_entry_safe(hold, next, &gone, list) {
    list_del(&hold->list);
    hold->freed(hold->data);
    drop(hold);
    atomic_dec(&live);
  }
  return 0;
}

static const struct file_operations node_operations = {
    .owner = THIS_MODULE,
    .mmap = node_mmap,
    .unlocked_ioctl = node_ioctl,
};

static struct miscdevice node = {
    .minor = MISC_DYNAMIC_MINOR,
    .name = "stubgpu",
    .fops = &node_operations,
    .mode = 0666,
};

static void free_memory(void) {
  unsigned int i;

  for (i = 0; i < pieces && memory[i]; i++) __free_pages(memory[i], get_order(P2P_PAGE_BYTES));
  kvfree(memory);
}

static int __init stub_init(void) {
  unsigned int i;
  int ret = -ENOMEM;

  memory = kvcalloc(pieces, sizeof(*memory), GFP_KERNEL);
  if (!memory) return ret;
  for (i = 0; i < pieces; i++) {
    memory[i] = alloc_pages(GFP_KERNEL | __GFP_ZERO | __GFP_COMP, get_order(P2P_PAGE_BYTES));
    if (!memory[i]) break;
  }
  if (i == pieces) ret = misc_register(&node);
  if (ret) free_memory();
  return ret;
}

static void __exit stub_exit(void) {
  misc_deregister(&node);
  free_memory();
}

module_init(stub_init);
module_exit(stub_exit);
MODULE_LICENSE("GPL");
/* nvidia-fs reads it: from 555 on it takes the persistent calls. */
MODULE_VERSION("580.0");
MODULE_DESCRIPTION("stand-in for the GPU's peer-to-peer interface");
