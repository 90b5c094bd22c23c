// SPDX-License-Identifier: Apache-2.0
// The form of a GPU and a network card in JSON: the doctor's and gdscheck's.
#pragma once

#include <nlohmann/json.hpp>

#include "doctor/report.h"

namespace sluice::doctor {

inline nlohmann::ordered_json json_of(const RdmaPair& pair) {
  return {{"gpu", pair.gpu},
          {"device", pair.device},
          {"way", pair.way},
          {"proven", pair.proven},
          {"needs_flush", pair.needs_flush},
          {"against_dma_buf", pair.against_dma_buf},
          {"against_peermem", pair.against_peermem}};
}

}  // namespace sluice::doctor
