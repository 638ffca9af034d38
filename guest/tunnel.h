// A byte stream between the host and a TCP port inside the sandbox.
#ifndef CATNAP_TUNNEL_H
#define CATNAP_TUNNEL_H

#include <stdint.h>

// Returns 0 when the stream has ended, or the errno of the last address tried.
int tunnel_serve(uint16_t port);

#endif
