// Output pipes of processes that ended while descendants still hold them open.
#ifndef CATNAP_LEFTOVER_H
#define CATNAP_LEFTOVER_H

// Reads and throws away what comes, so that a daemon started by an ended process neither blocks nor dies of SIGPIPE.
void leftover_keep(int fd);

#endif
