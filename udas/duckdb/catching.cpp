// Catches what DuckDB throws when memory runs out, before it reaches Python's frames.
#include "catching.h"

bool catching(void (*body)(void *), void *argument) {
    try {
        body(argument);
        return true;
    } catch (...) {
        return false;
    }
}
