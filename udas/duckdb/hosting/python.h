/* Starts the Python that trains, in a process that was loaded without tuskml's package. */
#ifndef TUSK_PYTHON_H
#define TUSK_PYTHON_H

#include <stdbool.h>

#define PYTHON_SENTENCE 1024

/* Starts Python; true once the package has set the trainer. On failure writes why. Any thread
 * may call it; one of them starts Python, the others wait. */
bool python_starts(char why[static PYTHON_SENTENCE]);

#endif
