// What DuckDB throws where memory ends, stopped before it comes to frames of Python's.
#include "catching.h"

bool catching(void (*body)(void *), void *argument) {
    try {
        body(argument);
        return true;
    } catch (...) {
        return false;
    }
}
