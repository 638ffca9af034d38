// A byte stream between the host and a TCP server, as the sandbox reaches it.
#ifndef CATNAP_TUNNEL_H
#define CATNAP_TUNNEL_H

#include <stdint.h>

// To a port inside. 0 when the stream has ended, or the errno of why there was none.
int tunnel_serve(uint16_t port);
// To a name or an address, wherever it is.
int tunnel_serve_host(const char *host, uint16_t port);

#endif
