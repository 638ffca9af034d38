// The memory of a window: mapped when the first byte comes, given back when the last is acknowledged.
#include "ring.h"

#include <string.h>
#include <sys/mman.h>

// One is kept for the next burst, so that short answers of one process after another cost no mapping.
static uint8_t *spare;
static int wide_count;

static uint8_t *map(size_t size) {
  void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return bytes == MAP_FAILED ? NULL : bytes;
}

bool ring_take(struct ring *ring, uint64_t start) {
  ring->bytes = spare != NULL ? spare : map(WINDOW_BYTES);
  ring->size = WINDOW_BYTES;
  ring->start = start;
  spare = NULL;
  return ring->bytes != NULL;
}

bool ring_widen(struct ring *ring, uint64_t from, uint64_t to) {
  if (ring->size == WIDE_WINDOW_BYTES || wide_count >= WIDE_RINGS_MAX) return false;
  uint8_t *bytes = map(WIDE_WINDOW_BYTES);
  if (bytes == NULL) return false;
  size_t length = 0;
  struct iovec piece[2];
  int count = ring_pieces(ring, from, (size_t)(to - from), piece);
  for (int i = 0; i < count; i++) {
    memcpy(bytes + length, piece[i].iov_base, piece[i].iov_len);
    length += piece[i].iov_len;
  }
  munmap(ring->bytes, ring->size);
  wide_count++;
  *ring = (struct ring){.bytes = bytes, .size = WIDE_WINDOW_BYTES, .start = from};
  return true;
}

void ring_give(struct ring *ring, uint64_t used) {
  if (ring->bytes == NULL) return;
  if (ring->size == WIDE_WINDOW_BYTES) wide_count--;
  // One that was filled has touched all of its pages: those go back to the kernel.
  if (spare == NULL && ring->size == WINDOW_BYTES && used - ring->start <= 4096) spare = ring->bytes;
  else munmap(ring->bytes, ring->size);
  ring->bytes = NULL;
}

int ring_pieces(const struct ring *ring, uint64_t offset, size_t length, struct iovec piece[2]) {
  size_t begin = (size_t)(offset - ring->start) & (ring->size - 1);
  size_t first = length < ring->size - begin ? length : ring->size - begin;
  piece[0] = (struct iovec){.iov_base = ring->bytes + begin, .iov_len = first};
  piece[1] = (struct iovec){.iov_base = ring->bytes, .iov_len = length - first};
  return length > first ? 2 : 1;
}
