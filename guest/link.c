// A worker's side of its connection: whole messages over a blocking socket.
#include "link.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "protocol.h"

static int connection = -1;
static bool is_broken;
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
    if (sent < 0) {
      is_broken = true;
      return false;
    }
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

bool link_send_both(const void *first, size_t first_length, const void *second, size_t second_length) {
  struct iovec parts[] = {{.iov_base = (void *)first, .iov_len = first_length}, {.iov_base = (void *)second, .iov_len = second_length}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = second_length > 0 ? 2 : 1};
  ssize_t sent;
  do sent = sendmsg(connection, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) {
    is_broken = true;
    return false;
  }
  size_t done = (size_t)sent;
  if (done < first_length && !link_send((const uint8_t *)first + done, first_length - done)) return false;
  if (second_length == 0) return true;
  size_t done_of_second = done > first_length ? done - first_length : 0;
  return link_send((const uint8_t *)second + done_of_second, second_length - done_of_second);
}

void link_break(void) { is_broken = true; }

bool link_is_whole(void) { return !is_broken; }

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
