// The memory of a window: bytes of a stream by their offsets, narrow at first, wide while a host that allows it is far behind.
#ifndef CATNAP_RING_H
#define CATNAP_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "protocol.h"

enum {
  // Wide ones at a time: the init's memory has a bound however many streams nobody acknowledges.
  WIDE_RINGS_MAX = 8,
};

struct ring {
  uint8_t *bytes;
  size_t size;
  // The offset of the first byte it was given.
  uint64_t start;
};

// Maps a narrow one whose first byte will be at `start`; false when memory is refused.
bool ring_take(struct ring *ring, uint64_t start);
// A wide one with the bytes from `from` to `to` moved over; false when there are enough of them or memory is refused.
bool ring_widen(struct ring *ring, uint64_t from, uint64_t to);
// Gives the memory back. `used`: up to where it was filled.
void ring_give(struct ring *ring, uint64_t used);
// The two pieces that hold, or will hold, `length` bytes from `offset`; how many they are.
int ring_pieces(const struct ring *ring, uint64_t offset, size_t length, struct iovec piece[2]);

#endif
