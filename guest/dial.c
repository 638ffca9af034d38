// Connects to TCP servers from inside the sandbox. What answers, names included, is the sandbox's own or hostile: everything has a bound.
#include "dial.h"

#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "link.h"

enum { CONNECT_TIMEOUT_MS = 10000, RESOLVE_TIMEOUT_S = 10, ADDRESSES_MAX = 8 };

// Waits for the connection, but not beyond the host's patience: its closing is seen too.
static int finish_connect(int fd, int timeout_ms) {
  struct pollfd polled[2] = {{.fd = fd, .events = POLLOUT}, {.fd = link_descriptor(), .events = 0}};
  int count = poll(polled, 2, timeout_ms);
  if (count < 0) return errno;
  if (count == 0) return ETIMEDOUT;
  if ((polled[0].revents & (POLLOUT | POLLERR | POLLHUP)) == 0) return ECANCELED;
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

static int try_connect(const struct sockaddr *address, socklen_t length, int timeout_ms, int *connected) {
  int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  int error = connect(fd, address, length) == 0 ? 0 : errno;
  if (error == EINPROGRESS) error = finish_connect(fd, timeout_ms);
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
  return try_connect((struct sockaddr *)&address, sizeof address, CONNECT_TIMEOUT_MS, connected);
}

int dial_port(uint16_t port, int *connected) {
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int error = try_connect((struct sockaddr *)&v4, sizeof v4, CONNECT_TIMEOUT_MS, connected);
  if (error == 0) return 0;
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  if (try_connect((struct sockaddr *)&v6, sizeof v6, CONNECT_TIMEOUT_MS, connected) == 0) return 0;
  if (connect_own_address(port, connected) == 0) return 0;
  // The first is what the caller meant.
  return failed("connect", error);
}

static int resolve_error(int result) {
  switch (result) {
    case EAI_SYSTEM:
      return errno == 0 ? EIO : errno;
    case EAI_MEMORY:
      return ENOMEM;
    case EAI_AGAIN:
      return ETIMEDOUT;
    default:
      return ENOENT;
  }
}

// The alarm ends the worker: the files that are read here may be pipes nobody writes to, or without an end.
static int resolve(const char *host, struct addrinfo **found) {
  struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  signal(SIGALRM, SIG_DFL);
  alarm(RESOLVE_TIMEOUT_S);
  int result = getaddrinfo(host, NULL, &wanted, found);
  alarm(0);
  return result == 0 ? 0 : failed("resolve", resolve_error(result));
}

static void set_port(struct sockaddr *address, uint16_t port) {
  if (address->sa_family == AF_INET6) ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
  else ((struct sockaddr_in *)address)->sin_port = htons(port);
}

int dial_host(const char *host, uint16_t port, int *connected) {
  int64_t deadline = now_ms() + CONNECT_TIMEOUT_MS;
  struct addrinfo *found;
  int error = resolve(host, &found);
  if (error != 0) return error;
  int first = 0;
  unsigned tried = 0;
  for (struct addrinfo *at = found; at != NULL && tried < ADDRESSES_MAX; at = at->ai_next, tried++) {
    int64_t left = deadline - now_ms();
    set_port(at->ai_addr, port);
    error = left <= 0 ? ETIMEDOUT : try_connect(at->ai_addr, at->ai_addrlen, (int)left, connected);
    if (error == 0) return 0;
    if (first == 0) first = error;
    if (left <= 0 || error == ECANCELED) break;
  }
  return failed("connect", first == 0 ? ENOENT : first);
}
