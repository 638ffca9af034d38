// Connects to TCP servers from inside the sandbox: its routes, its packet filter and its names decide.
#ifndef CATNAP_DIAL_H
#define CATNAP_DIAL_H

#include <stdint.h>

// Tries 127.0.0.1, ::1 and the address of eth0. 0, or the errno of the first of them.
int dial_port(uint16_t port, int *connected);
// A name is looked up as the sandbox's /etc/hosts and /etc/resolv.conf say. 0, or the errno of the first address, or of the looking up.
int dial_host(const char *host, uint16_t port, int *connected);

#endif
