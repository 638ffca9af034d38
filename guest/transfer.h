// File operations that move content. Each returns 0 after it has answered, or the errno to answer with.
#ifndef CATNAP_TRANSFER_H
#define CATNAP_TRANSFER_H

#include "messages.h"

int transfer_read(const struct file_request *request);
int transfer_write(const struct file_request *request);
int transfer_concatenate(const struct file_request *request);

#endif
