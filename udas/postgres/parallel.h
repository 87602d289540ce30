/* Files that workers hand over, and their end. */
#ifndef TUSK_POSTGRES_PARALLEL_H
#define TUSK_POSTGRES_PARALLEL_H

/* Once a process, when the library is loaded. */
void watch_transactions(void);

#endif
