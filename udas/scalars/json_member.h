/* One member of a JSON object, found without reading the rest into anything. */
#ifndef TUSK_JSON_MEMBER_H
#define TUSK_JSON_MEMBER_H

#include "score.h"

/* The value of a member of the outermost object, as it is written, without the quotes of a string;
 * of several with one name the last. data is NULL where there is none, or the text is no object.
 * Names and strings with escapes are not unescaped. */
tusk_text tusk_json_member(tusk_text json, const char *name);

#endif
