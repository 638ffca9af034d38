// Bounded reading and writing of little-endian fields and frame headers.
#include "cursor.h"

#include <string.h>

#include "protocol.h"

const uint8_t *take_bytes(struct cursor *cursor, size_t length) {
  if (cursor->bad || cursor->left < length) {
    cursor->bad = true;
    return NULL;
  }
  const uint8_t *bytes = cursor->at;
  cursor->at += length;
  cursor->left -= length;
  return bytes;
}

static uint64_t take_number(struct cursor *cursor, size_t length) {
  const uint8_t *bytes = take_bytes(cursor, length);
  uint64_t value = 0;
  if (bytes != NULL) {
    for (size_t i = 0; i < length; i++) value |= (uint64_t)bytes[i] << (8 * i);
  }
  return value;
}

uint8_t take_u8(struct cursor *cursor) { return (uint8_t)take_number(cursor, 1); }
uint16_t take_u16(struct cursor *cursor) { return (uint16_t)take_number(cursor, 2); }
uint32_t take_u32(struct cursor *cursor) { return (uint32_t)take_number(cursor, 4); }
uint64_t take_u64(struct cursor *cursor) { return take_number(cursor, 8); }

const char *take_text(struct cursor *cursor, size_t max) {
  uint32_t length = take_u32(cursor);
  if (length > max) cursor->bad = true;
  const uint8_t *bytes = take_bytes(cursor, (size_t)length + 1);
  if (bytes == NULL) return NULL;
  if (memchr(bytes, 0, (size_t)length + 1) != bytes + length) {
    cursor->bad = true;
    return NULL;
  }
  return (const char *)bytes;
}

bool cursor_finished(const struct cursor *cursor) { return !cursor->bad && cursor->left == 0; }

void put_bytes(struct packer *packer, const void *bytes, size_t length) {
  if (packer->full || packer->max - packer->length < length) {
    packer->full = true;
    return;
  }
  if (length > 0) memcpy(packer->start + packer->length, bytes, length);
  packer->length += length;
}

static void put_number(struct packer *packer, uint64_t value, size_t length) {
  uint8_t bytes[8];
  for (size_t i = 0; i < length; i++) bytes[i] = (uint8_t)(value >> (8 * i));
  put_bytes(packer, bytes, length);
}

void put_u8(struct packer *packer, uint8_t value) { put_number(packer, value, 1); }
void put_u32(struct packer *packer, uint32_t value) { put_number(packer, value, 4); }
void put_u64(struct packer *packer, uint64_t value) { put_number(packer, value, 8); }

void put_text(struct packer *packer, const char *text) {
  size_t length = strlen(text);
  put_u32(packer, (uint32_t)length);
  put_bytes(packer, text, length + 1);
}

size_t frame_begin(struct packer *packer, uint8_t type, uint32_t channel) {
  size_t begun = packer->length;
  put_u32(packer, 0);
  put_u8(packer, type);
  put_u32(packer, channel);
  return begun;
}

void frame_complete(struct packer *packer, size_t begun) {
  if (packer->full) {
    packer->length = begun;
    return;
  }
  struct packer header = {.start = packer->start + begun, .max = 4};
  put_u32(&header, (uint32_t)(packer->length - begun - FRAME_HEADER_BYTES));
}

struct frame_header read_frame_header(const uint8_t *bytes) {
  struct cursor cursor = {.at = bytes, .left = FRAME_HEADER_BYTES};
  struct frame_header header;
  header.length = take_u32(&cursor);
  header.type = take_u8(&cursor);
  header.channel = take_u32(&cursor);
  return header;
}
