// What is composed for the control connection and not sent yet.
#include "outbox.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

// Below this, frames are gathered: a call of the kernel costs more than copying them.
enum { SMALL_BYTES = 4096 };

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

static void compose(const uint8_t *from, size_t length) {
  memcpy(bytes + end, from, length);
  end += length;
}

enum flush_result outbox_send(int fd, const struct iovec *piece, int piece_count) {
  struct iovec whole[3] = {{.iov_base = bytes + start, .iov_len = end - start}};
  size_t length = 0;
  for (int i = 0; i < piece_count; i++) length += (whole[i + 1] = piece[i]).iov_len;
  size_t sent = 0;
  if (length > SMALL_BYTES) {
    struct msghdr message = {.msg_iov = whole, .msg_iovlen = (size_t)piece_count + 1};
    ssize_t got = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (got < 0 && errno != EAGAIN && errno != EINTR) return FLUSH_GONE;
    if (got > 0) sent = (size_t)got;
  }
  size_t composed = sent < end - start ? sent : end - start;
  sent -= composed;
  start += composed;
  if (start == end) outbox_clear();
  if (start > 0) {
    memmove(bytes, bytes + start, end - start);
    end -= start;
    start = 0;
  }
  for (int i = 0; i < piece_count; i++) {
    size_t skipped = sent < piece[i].iov_len ? sent : piece[i].iov_len;
    compose((const uint8_t *)piece[i].iov_base + skipped, piece[i].iov_len - skipped);
    sent -= skipped;
  }
  return start == end ? FLUSH_DONE : FLUSH_FULL;
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
