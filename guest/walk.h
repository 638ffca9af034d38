// Names what lies below a directory. Returns 0 after it has answered, or the errno to answer with.
#ifndef CATNAP_WALK_H
#define CATNAP_WALK_H

#include "messages.h"

int walk_serve(const struct file_request *request);

#endif
