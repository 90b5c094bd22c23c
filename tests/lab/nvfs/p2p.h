/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface by which nvidia-fs.ko reaches the GPU's driver, as far as it
 * is used: layouts and versions are those of the driver's published one.
 */
#ifndef SLUICE_LAB_P2P_H
#define SLUICE_LAB_P2P_H

#include <linux/types.h>

struct pci_dev;

#define P2P_PAGE_TABLE_VERSION 0x00020000
#define P2P_DMA_MAPPING_VERSION 0x00020003
#define P2P_PAGE_BYTES (64UL << 10)

enum nvidia_p2p_page_size_type { P2P_PAGE_SIZE_4KB, P2P_PAGE_SIZE_64KB };

struct nvidia_p2p_page {
  u64 physical_address;
  u32 registers[6];
};

struct nvidia_p2p_page_table {
  u32 version;
  u32 page_size;
  struct nvidia_p2p_page** pages;
  u32 entries;
  u8* gpu_uuid;
  u32 flags;
};

struct nvidia_p2p_dma_mapping {
  u32 version;
  enum nvidia_p2p_page_size_type page_size_type;
  u32 entries;
  u64* dma_addresses;
  void* private;
  struct pci_dev* pci_dev;
};

typedef void (*p2p_freed_fn)(void* data);

int nvidia_p2p_get_pages(u64 token, u32 space, u64 address, u64 length, struct nvidia_p2p_page_table** made,
                         p2p_freed_fn freed, void* data);
int nvidia_p2p_get_pages_persistent(u64 address, u64 length, struct nvidia_p2p_page_table** made, u32 flags);
int nvidia_p2p_put_pages(u64 token, u32 space, u64 address, struct nvidia_p2p_page_table* table);
int nvidia_p2p_put_pages_persistent(u64 address, struct nvidia_p2p_page_table* table, u32 flags);
int nvidia_p2p_free_page_table(struct nvidia_p2p_page_table* table);
int nvidia_p2p_dma_map_pages(struct pci_dev* peer, struct nvidia_p2p_page_table* table,
                             struct nvidia_p2p_dma_mapping** made);
int nvidia_p2p_dma_unmap_pages(struct pci_dev* peer, struct nvidia_p2p_page_table* table,
                               struct nvidia_p2p_dma_mapping* mapping);
int nvidia_p2p_free_dma_mapping(struct nvidia_p2p_dma_mapping* mapping);

#endif
