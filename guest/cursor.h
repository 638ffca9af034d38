// Bounded reading and writing of little-endian fields: a step beyond the end marks the cursor bad instead of touching memory.
#ifndef CATNAP_CURSOR_H
#define CATNAP_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Reads from a payload. Once `bad`, every further step yields zero or NULL.
struct cursor {
  const uint8_t *at;
  size_t left;
  bool bad;
};

uint8_t take_u8(struct cursor *cursor);
uint16_t take_u16(struct cursor *cursor);
uint32_t take_u32(struct cursor *cursor);
uint64_t take_u64(struct cursor *cursor);
// A text of at most `max` bytes: u32 length, the bytes without a zero among them, one zero. Points into the payload.
// NULL when fewer are left.
const uint8_t *take_bytes(struct cursor *cursor, size_t length);
const char *take_text(struct cursor *cursor, size_t max);
// Whether everything was read and nothing is left over.
bool cursor_finished(const struct cursor *cursor);

// Writes into a buffer. Once `full`, nothing more is written.
struct packer {
  uint8_t *start;
  size_t length;
  size_t max;
  bool full;
};

void put_u8(struct packer *packer, uint8_t value);
void put_u32(struct packer *packer, uint32_t value);
void put_u64(struct packer *packer, uint64_t value);
void put_bytes(struct packer *packer, const void *bytes, size_t length);
void put_text(struct packer *packer, const char *text);

// A frame is begun with its header and completed with the length of what was put after it.
size_t frame_begin(struct packer *packer, uint8_t type, uint32_t channel);
void frame_complete(struct packer *packer, size_t begun);

struct frame_header {
  uint32_t length;
  uint8_t type;
  uint32_t channel;
};

struct frame_header read_frame_header(const uint8_t *bytes);

#endif
