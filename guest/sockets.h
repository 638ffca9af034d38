// Names the sockets of the sandbox's network and the processes that hold them. Returns 0 after it has answered, or an errno.
#ifndef CATNAP_SOCKETS_H
#define CATNAP_SOCKETS_H

#include "messages.h"

int sockets_serve(const struct file_request *request);

#endif
