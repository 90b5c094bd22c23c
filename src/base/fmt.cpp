// SPDX-License-Identifier: Apache-2.0
// What fmt 9 compiles once: the definitions its headers leave out where FMT_HEADER_ONLY is not set, and the templates
// of them that its headers call for char.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template dragonbox::decimal_fp<float> dragonbox::to_decimal(float number) noexcept;
template dragonbox::decimal_fp<double> dragonbox::to_decimal(double number) noexcept;
template thousands_sep_result<char> thousands_sep_impl(locale_ref locale);
template char decimal_point_impl(locale_ref locale);

}  // namespace detail
FMT_END_NAMESPACE
