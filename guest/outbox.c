// What is composed for the control connection and not sent yet.
#include "outbox.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static uint8_t bytes[OUTBOX_BYTES];
static size_t start;
static size_t end;

size_t outbox_room(void) { return OUTBOX_BYTES - end; }

struct packer outbox_packer(void) { return (struct packer){.start = bytes + end, .max = outbox_room()}; }

void outbox_add(const struct packer *packer) { end += packer->length; }

void outbox_clear(void) { start = end = 0; }

enum flush_result outbox_flush(int fd) {
  while (start < end) {
    ssize_t sent = send(fd, bytes + start, end - start, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      start += (size_t)sent;
    } else if (errno == EAGAIN) {
      memmove(bytes, bytes + start, end - start);
      end -= start;
      start = 0;
      return FLUSH_FULL;
    } else if (errno != EINTR) {
      return FLUSH_GONE;
    }
  }
  outbox_clear();
  return FLUSH_DONE;
}

void outbox_save(struct state_writer *writer) {
  put_u32(state_room(writer, 4), (uint32_t)(end - start));
  state_put_bytes(writer, bytes + start, end - start);
}

bool outbox_load(struct state_reader *reader) {
  start = 0;
  end = state_take_count(reader, OUTBOX_BYTES);
  const uint8_t *saved = take_bytes(&reader->cursor, end);
  if (saved == NULL) return false;
  memcpy(bytes, saved, end);
  return true;
}
