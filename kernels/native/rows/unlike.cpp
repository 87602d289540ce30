// Categories whose levels hardly repeat, such as ids, or numbers that were read as text: no row
// gives information about another one.
#include <algorithm>
#include <cstdlib>

#include "columns.hpp"

namespace tusk {
namespace {

constexpr int64_t LEAST_ROWS = 10;    // in fewer rows levels easily occur once each
constexpr double MOST_REPEATED = 0.1; // fraction of the rows with repeated levels, below which a
                                      // category hardly repeats
constexpr double FEW_REPEATED = 0.5;  // likewise, for texts of numbers
constexpr size_t MANY_FRACTIONS = 10; // number of levels with fractions above which they are not
                                      // codes, if they also exceed the root of the rows
constexpr double MOST_WITHOUT = 0.1;  // fraction of the levels that are not numbers, such as NA
                                      // among numbers

// Whether a text is a number; fraction: set if it is not whole.
bool is_number(std::string_view text, bool *fraction) {
    const std::string copy(text.substr(0, 64)); // terminated by 0
    const size_t begin = copy.find_first_not_of(" +-");
    if (begin == copy.npos ||
        !(copy[begin] == '.' || (copy[begin] >= '0' && copy[begin] <= '9')) ||
        copy.find_first_of("xX") != copy.npos)
        return false;
    char *end;
    std::strtod(copy.c_str(), &end);
    *fraction |= copy.find_first_of(".eE") != copy.npos;
    return copy.find_first_not_of(' ', (size_t)(end - copy.c_str())) == copy.npos;
}

} // namespace

void look_at_levels(Column &c, int64_t n) {
    const size_t levels = c.levels.size();
    if (n < LEAST_ROWS || !levels || c.part != TUSK_WHOLE)
        return;
    bool fraction = false;
    size_t numbers = 0;
    for (std::string_view level : c.levels)
        numbers += !c.of_numbers && is_number(level, &fraction);
    c.reads_as_numbers = (double)(levels - numbers) <= MOST_WITHOUT * (double)levels;
    const double most = (double)n * (1 - (c.reads_as_numbers ? FEW_REPEATED : MOST_REPEATED));
    const bool no_codes = c.reads_as_numbers && fraction && numbers >= MANY_FRACTIONS &&
                          (double)levels * (double)levels > (double)n;
    if ((double)levels > most || no_codes)
        c.levels_of_rows = levels;
}

std::string unlike_of(const Columns &columns) {
    std::string out;
    auto add = [&](const Column &c) {
        if (!c.levels_of_rows)
            return;
        out.append(c.source_name) += '\0';
        out.append(std::to_string(c.levels_of_rows)) += '\0';
        out.append(c.reads_as_numbers ? "1" : "0") += '\0';
    };
    add(columns.label);
    for (const Column &c : columns.columns)
        add(c);
    return out;
}

} // namespace tusk
