/* SPDX-License-Identifier: Apache-2.0
 *
 * sluice_rdma.h: for file systems that are given as operations (CUfileFSOps_t) and move bytes by RDMA, and for their
 * servers: the text that describes memory, and the queue pairs by which a server reaches it. The functions are those of
 * libcufile_rdma.so.1, which needs nothing at load time and finds libibverbs.so.1 when it is first asked for a port.
 * docs/reference/rdma.md tells how the parts go together.
 *
 * Calls answer 0, or an errno; sluice_rdma_error() has the sentence. Plain C; any thread at any time.
 */
#ifndef SLUICE_RDMA_H
#define SLUICE_RDMA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* The text in cufileRDMAInfo_t: desc_str, of desc_len bytes and a 0 behind them; version is SLUICE_RDMA_TOKEN_VERSION.
 * Hexadecimal fields with colons between them:
 *   address 16, size 8, key 8, LID 4, queue pair 6, 1 where there is a GID, GID 32 */
#define SLUICE_RDMA_TOKEN_VERSION 1
#define SLUICE_RDMA_TOKEN_LENGTH 81

/* The most bytes that one text describes: 4 GiB less 64 KiB. */
#define SLUICE_RDMA_MOST_BYTES 0xffff0000u

typedef struct sluice_rdma_token {
  uint64_t address; /* where RDMA finds the first byte */
  uint32_t size;    /* bytes from there on: nothing else may be touched */
  uint32_t rkey;
  uint16_t lid;    /* of the port; 0 where it has none (RoCE) */
  uint32_t qp;     /* of 24 bits: the first queue pair of the newest link on that port */
  uint8_t has_gid; /* 1, or 0 */
  uint8_t gid[16]; /* zeros without one */
} sluice_rdma_token_t;

/* EINVAL: a field has more bits than its place. `text` has room for SLUICE_RDMA_TOKEN_LENGTH and 1. */
int sluice_rdma_token_write(const sluice_rdma_token_t* token, char* text);
/* Exactly that form, in digits of either case; EINVAL for all else, and *token is as it was. */
int sluice_rdma_token_read(const char* text, size_t length, sluice_rdma_token_t* token);

/* A port of an adapter that is up. */
typedef struct sluice_rdma_port {
  char device[64];  /* "mlx5_0" */
  uint8_t port;     /* from 1 */
  uint8_t ethernet; /* 1: RoCE, 0: InfiniBand */
  uint8_t mtu;      /* 1 to 5: 256 to 4096 bytes */
  uint8_t has_gid;
  uint8_t gid[16]; /* of RoCE the one that stands for `address`, by RoCE v2 where there is one */
  int gid_index;
  uint16_t lid;
  char address[16]; /* IPv4: "10.0.0.4"; "" where none is known */
  unsigned links;   /* that are connected */
} sluice_rdma_port_t;

typedef void (*sluice_rdma_port_visitor_t)(const sluice_rdma_port_t* port, void* context);

/* ENOSYS: no libibverbs.so.1 that can be used. Ports that are down are left out. */
int sluice_rdma_ports(sluice_rdma_port_visitor_t visit, void* context);

/* What each side tells the other of a queue pair, over a channel of their own. */
typedef struct sluice_rdma_endpoint {
  uint32_t qp;
  uint32_t psn; /* the number of the first packet that it sends; 24 bits */
  uint16_t lid;
  uint8_t mtu;
  uint8_t has_gid;
  uint8_t gid[16];
} sluice_rdma_endpoint_t;

/* Reliably connected queue pairs of one port, by which one server reaches memory that this process has registered. A
 * key is good for queue pairs of its own protection domain only, and each adapter has one of the library's: so they are
 * made here. Nothing is sent by them: the server reads and writes. */
typedef struct sluice_rdma_link sluice_rdma_link_t;
#define SLUICE_RDMA_MOST_QUEUE_PAIRS 16u

/* Makes `count` queue pairs on the port that has this address (IPv4; NULL: the first that is up) and writes what the
 * server has to know of each. One does not fill a fast adapter: four are a good number. ENOSYS: as above; ENODEV: no
 * port that is up has the address; EINVAL: a count of 0 or above the most. */
int sluice_rdma_link_open(const struct sockaddr* address, unsigned count, sluice_rdma_link_t** link,
                          sluice_rdma_endpoint_t* own);
/* The same number, in the same order. From here on texts may name the port. EINVAL: a field is out of range; ENOTCONN:
 * it was connected before, or came through fork; else what the adapter's driver answers. */
int sluice_rdma_link_connect(sluice_rdma_link_t* link, const sluice_rdma_endpoint_t* theirs, unsigned count);
/* Which port it is on. */
void sluice_rdma_link_port(const sluice_rdma_link_t* link, sluice_rdma_port_t* port);
/* The server reaches nothing by it any more. Also of one that never was connected, and of one that has failed. */
void sluice_rdma_link_close(sluice_rdma_link_t* link);

/* The cause of this thread's last refusal, in one sentence; "" when there was none. Valid until its next call here. */
const char* sluice_rdma_error(void);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* SLUICE_RDMA_H */
