// What has come on the control connection and is not handled yet.
#include "inbox.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "protocol.h"

enum { INBOX_BYTES = 16 * 1024 };

static uint8_t bytes[INBOX_BYTES];
static size_t start;
static size_t end;
// A frame longer than the buffer is collected in memory of its own.
static uint8_t *long_frame;
static size_t long_length;
static size_t long_filled;

static void drop_long_frame(void) {
  if (long_frame != NULL) munmap(long_frame, long_length);
  long_frame = NULL;
}

void inbox_clear(void) {
  start = end = 0;
  drop_long_frame();
}

static bool begin_long_frame(size_t length, const uint8_t *begun, size_t filled) {
  void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  long_frame = memory;
  long_length = length;
  long_filled = filled;
  memcpy(long_frame, begun, filled);
  return true;
}

bool inbox_receive(int fd) {
  memmove(bytes, bytes + start, end - start);
  end -= start;
  start = 0;
  bool is_long = long_frame != NULL;
  uint8_t *at = is_long ? long_frame + long_filled : bytes + end;
  size_t wanted = is_long ? long_length - long_filled : INBOX_BYTES - end;
  if (wanted == 0) return true;
  ssize_t got = recv(fd, at, wanted, MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (is_long) long_filled += (size_t)got;
  else end += (size_t)got;
  return got > 0;
}

enum inbox_result inbox_first(struct frame_header *header, const uint8_t **payload) {
  if (long_frame != NULL) {
    *header = read_frame_header(long_frame);
    *payload = long_frame + FRAME_HEADER_BYTES;
    return long_filled < long_length ? INBOX_NONE : INBOX_FRAME;
  }
  if (end - start < FRAME_HEADER_BYTES) return INBOX_NONE;
  *header = read_frame_header(bytes + start);
  *payload = bytes + start + FRAME_HEADER_BYTES;
  if (header->length > CONTROL_PAYLOAD_MAX) return INBOX_BROKEN;
  size_t whole = FRAME_HEADER_BYTES + (size_t)header->length;
  if (end - start >= whole) return INBOX_FRAME;
  if (whole <= INBOX_BYTES) return INBOX_NONE;
  if (!begin_long_frame(whole, bytes + start, end - start)) return INBOX_BROKEN;
  start = end = 0;
  return INBOX_NONE;
}

void inbox_drop(void) {
  if (long_frame != NULL) drop_long_frame();
  else start += FRAME_HEADER_BYTES + (size_t)read_frame_header(bytes + start).length;
}

void inbox_save(struct state_writer *writer) {
  put_u32(state_room(writer, 4), (uint32_t)(end - start));
  state_put_bytes(writer, bytes + start, end - start);
  struct packer *packer = state_room(writer, 8);
  put_u32(packer, long_frame == NULL ? 0 : (uint32_t)long_length);
  put_u32(packer, long_frame == NULL ? 0 : (uint32_t)long_filled);
  if (long_frame != NULL) state_put_bytes(writer, long_frame, long_filled);
}

bool inbox_load(struct state_reader *reader) {
  start = 0;
  end = state_take_count(reader, INBOX_BYTES);
  const uint8_t *saved = take_bytes(&reader->cursor, end);
  if (saved == NULL) return false;
  memcpy(bytes, saved, end);
  size_t length = state_take_count(reader, FRAME_HEADER_BYTES + CONTROL_PAYLOAD_MAX);
  size_t filled = state_take_count(reader, (uint32_t)length);
  const uint8_t *begun = take_bytes(&reader->cursor, filled);
  if (begun == NULL || length == 0) return !reader->cursor.bad;
  if (filled < FRAME_HEADER_BYTES || read_frame_header(begun).length + (size_t)FRAME_HEADER_BYTES != length) return false;
  return begin_long_frame(length, begun, filled);
}
