// A byte stream between the host and a TCP port inside: each direction ends on its own, as TCP's do.
#include "tunnel.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link.h"

enum { CONNECT_TIMEOUT_MS = 10000, BUFFER_BYTES = 64 * 1024 };

// Waits for the connection, but not beyond the host's patience: its closing is seen too.
static int finish_connect(int fd) {
  struct pollfd polled[2] = {{.fd = fd, .events = POLLOUT}, {.fd = link_descriptor(), .events = 0}};
  int count = poll(polled, 2, CONNECT_TIMEOUT_MS);
  if (count < 0) return errno;
  if (count == 0) return ETIMEDOUT;
  if ((polled[0].revents & (POLLOUT | POLLERR | POLLHUP)) == 0) return ECANCELED;
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

static int try_connect(const struct sockaddr *address, socklen_t length, int *connected) {
  int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  int error = connect(fd, address, length) == 0 ? 0 : errno;
  if (error == EINPROGRESS) error = finish_connect(fd);
  if (error != 0) {
    close(fd);
    return error;
  }
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  *connected = fd;
  return 0;
}

// A server bound to the sandbox's address alone is on neither loopback.
static int connect_own_address(uint16_t port, int *connected) {
  struct ifreq request = {.ifr_addr.sa_family = AF_INET};
  strcpy(request.ifr_name, "eth0");
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  int error = ioctl(fd, SIOCGIFADDR, &request) == 0 ? 0 : errno;
  close(fd);
  if (error != 0) return error;
  struct sockaddr_in address;
  memcpy(&address, &request.ifr_addr, sizeof address);
  address.sin_port = htons(port);
  return try_connect((struct sockaddr *)&address, sizeof address, connected);
}

static int connect_port(uint16_t port, int *connected) {
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int error = try_connect((struct sockaddr *)&v4, sizeof v4, connected);
  if (error == 0) return 0;
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  if (try_connect((struct sockaddr *)&v6, sizeof v6, connected) == 0) return 0;
  if (connect_own_address(port, connected) == 0) return 0;
  // The first is what the caller meant.
  return error;
}

// One direction: bytes read and not yet written; `over` once the end was passed on.
struct direction {
  int from;
  int to;
  size_t at;
  size_t filled;
  bool ended;
  bool over;
  uint8_t bytes[BUFFER_BYTES];
};

static bool is_temporary(int error) { return error == EAGAIN || error == EINTR; }

// Moves what it can without waiting; false when the stream is broken.
static bool move(struct direction *direction) {
  if (!direction->ended && direction->at == direction->filled) {
    ssize_t got = recv(direction->from, direction->bytes, BUFFER_BYTES, MSG_DONTWAIT);
    if (got < 0 && !is_temporary(errno)) return false;
    direction->at = 0;
    direction->filled = got > 0 ? (size_t)got : 0;
    direction->ended = got == 0;
  }
  while (direction->at < direction->filled) {
    ssize_t sent = send(direction->to, direction->bytes + direction->at, direction->filled - direction->at,
                        MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return is_temporary(errno);
    direction->at += (size_t)sent;
  }
  if (direction->ended && !direction->over) {
    shutdown(direction->to, SHUT_WR);
    direction->over = true;
  }
  return true;
}

static bool is_full(const struct direction *direction) { return direction->at < direction->filled; }

static short wanted_events(const struct direction *in, const struct direction *out) {
  short events = 0;
  if (!in->ended && !is_full(in)) events |= POLLIN;
  if (is_full(out)) events |= POLLOUT;
  return events;
}

int tunnel_serve(uint16_t port) {
  static struct direction inward, outward;
  int fd;
  int error = connect_port(port, &fd);
  if (error != 0) return failed("connect", error);
  link_send_done();
  int host = link_descriptor();
  inward.from = outward.to = host;
  inward.to = outward.from = fd;
  while (!inward.over || !outward.over) {
    short host_events = wanted_events(&inward, &outward);
    short port_events = wanted_events(&outward, &inward);
    // A hang-up is reported even when nothing is waited for: then the descriptor is left out, or the loop would spin. The host's
    // is needed for its closing to be seen, unless bytes for the port have to leave first.
    struct pollfd polled[2] = {
        {.fd = host_events == 0 && is_full(&inward) ? -1 : host, .events = host_events},
        {.fd = port_events == 0 ? -1 : fd, .events = port_events},
    };
    if (poll(polled, 2, -1) < 0 && errno != EINTR) break;
    if (!move(&inward) || !move(&outward)) break;
    if ((polled[0].revents & POLLHUP) != 0 && inward.over) break;
  }
  return 0;
}
