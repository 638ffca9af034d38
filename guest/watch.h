// Tells what changes in a directory or a tree until the host closes the connection.
#ifndef CATNAP_WATCH_H
#define CATNAP_WATCH_H

#include "messages.h"

int watch_serve(const struct file_request *request);

#endif
