/* Loaded with AddressSanitizer's runtime, which starts at the first malloc: here, before all other
 * libraries. Else that is within bindtextdomain of a library's start, whose lock the runtime needs.
 */
#include <stdlib.h>

__attribute__((constructor)) static void first(void) {
    void *volatile p = malloc(1);
    free(p);
}
