// A worker's side of its connection: whole messages over a blocking socket.
#include "link.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol.h"

static int connection = -1;
static const char *failed_operation = "request";

void link_open(int fd) { connection = fd; }

int link_descriptor(void) { return connection; }

bool link_receive(void *bytes, size_t length) {
  uint8_t *at = bytes;
  while (length > 0) {
    ssize_t got = recv(connection, at, length, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    length -= (size_t)got;
  }
  return true;
}

bool link_receive_header(struct frame_header *header) {
  uint8_t bytes[FRAME_HEADER_BYTES];
  if (!link_receive(bytes, sizeof bytes)) return false;
  *header = read_frame_header(bytes);
  return true;
}

bool link_send(const void *bytes, size_t length) {
  const uint8_t *at = bytes;
  while (length > 0) {
    ssize_t sent = send(connection, at, length, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    at += sent;
    length -= (size_t)sent;
  }
  return true;
}

bool link_abandoned(void) {
  enum { CALLS_PER_LOOK = 256 };
  static unsigned calls;
  static bool abandoned;
  if (++calls % CALLS_PER_LOOK != 0) return abandoned;
  struct pollfd polled = {.fd = connection, .events = 0};
  abandoned = abandoned || poll(&polled, 1, 0) > 0;
  return abandoned;
}

int failed(const char *operation, int error) {
  failed_operation = operation;
  return error;
}

void link_send_failure(int error) {
  uint8_t bytes[256];
  struct packer packer = {.start = bytes, .max = sizeof bytes};
  encode_failed(&packer, error, failed_operation);
  if (!link_send(bytes, packer.length)) return;
  shutdown(connection, SHUT_WR);
  while (recv(connection, bytes, sizeof bytes, 0) > 0) continue;
}

void link_send_done(void) {
  uint8_t bytes[FRAME_HEADER_BYTES];
  struct packer packer = {.start = bytes, .max = sizeof bytes};
  encode_empty(&packer, FRAME_DONE, 0);
  link_send(bytes, packer.length);
}

void link_send_attributes(const struct attributes *attributes) {
  uint8_t bytes[1024];
  struct packer packer = {.start = bytes, .max = sizeof bytes};
  encode_attributes(&packer, attributes);
  link_send(bytes, packer.length);
}
