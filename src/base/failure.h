// SPDX-License-Identifier: Apache-2.0
// How the control plane fails: one exception type that carries what the C API has to answer and a sentence for the
// reader of the log. Thrown anywhere above the I/O path, translated once, by the funnel in api/.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "cufile.h"

namespace sluice::base {

class Failure : public std::exception {
 public:
  // `cause` is an errno when code is a file or memory matter, a CUresult when code is CU_FILE_CUDA_DRIVER_ERROR,
  // 0 when there is none.
  Failure(CUfileOpError code, std::string sentence, int cause = 0)
      : code_(code), cause_(cause), sentence_(std::move(sentence)) {}

  CUfileOpError code() const noexcept { return code_; }
  int cause() const noexcept { return cause_; }
  const std::string& sentence() const noexcept { return sentence_; }
  const char* what() const noexcept override { return sentence_.c_str(); }

 private:
  CUfileOpError code_;
  int cause_;
  std::string sentence_;
};

}  // namespace sluice::base
