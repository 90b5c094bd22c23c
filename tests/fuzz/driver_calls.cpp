// SPDX-License-Identifier: Apache-2.0
// Opening and closing, properties, P2P flags, the exported topology.
#define CUFILE_NO_CLOSE_V2_RENAME
#include "fuzz/enumerators.h"
#include "fuzz/families.h"

namespace sluice::fuzz {
void open_driver(Actor& actor) {
  actor.expect(actor.call("cuFileDriverOpen", "", [] { return cuFileDriverOpen(); }), {CU_FILE_SUCCESS});
}

void close_driver(Actor& actor) {
  const World::Hold hold(actor.world());
  const bool second = actor.one_in(2);
  actor.expect(actor.call(second ? "cuFileDriverClose_v2" : "cuFileDriverClose", "",
                          [&] { return second ? cuFileDriverClose_v2() : cuFileDriverClose(); }),
               {CU_FILE_SUCCESS, CU_FILE_DRIVER_NOT_INITIALIZED});
}

void close_driver_to_the_end(Actor& actor) {
  // Others open at the same time: as many closes as it was open at first, no more.
  const long count = actor.call("cuFileUseCount", "", [] { return cuFileUseCount(); });
  actor.require(count >= 0, "a negative use count");
  for (long i = 0; i < count; ++i) close_driver(actor);
  // Now is the time to set parameters, unless another actor has opened it again.
  for (int i = 0; i < 8; ++i) {
    set_parameter(actor);
    use_slab_arrays(actor);
  }
}

void ask_driver(Actor& actor) {
  switch (actor.draw(4)) {
    case 0: {
      const long count = actor.call("cuFileUseCount", "", [] { return cuFileUseCount(); });
      actor.require(count >= 0, "a negative use count");
      break;
    }
    case 1: {
      int version = 0;
      int* const where = actor.one_in(3) ? nullptr : &version;
      const CUfileError_t answer =
          actor.call("cuFileGetVersion", where != nullptr ? "&" : "NULL", [&] { return cuFileGetVersion(where); });
      actor.expect(answer, {where != nullptr ? CU_FILE_SUCCESS : CU_FILE_INVALID_VALUE});
      actor.require(where == nullptr || version == 1150, "another version");
      break;
    }
    case 2: {
      CUfileDrvProps_t properties{};
      CUfileDrvProps_t* const where = actor.one_in(4) ? nullptr : &properties;
      const CUfileError_t answer = actor.call("cuFileDriverGetProperties", where != nullptr ? "&" : "NULL",
                                              [&] { return cuFileDriverGetProperties(where); });
      actor.expect(answer, {where != nullptr ? CU_FILE_SUCCESS : CU_FILE_INVALID_VALUE});
      actor.require(where == nullptr || properties.max_batch_io_size > 0, "no batch of any size");
      break;
    }
    default: {
      std::size_t size = 0;
      std::size_t* const where = actor.one_in(4) ? nullptr : &size;
      const int index = static_cast<int>(actor.draw(4)) - 1;
      actor.expect(actor.call("cuFileGetBARSizeInKB", joined(index, where != nullptr ? ", &" : ", NULL"),
                              [&] { return cuFileGetBARSizeInKB(index, where); }),
                   {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE});
    }
  }
}

void set_property(Actor& actor) {
  const std::size_t size = actor.any_number();
  const std::string text = std::to_string(size);
  switch (actor.draw(4)) {
    case 0: {
      const bool poll = actor.one_in(2);
      const bool valid = size % 4 == 0 && size >= 4 && size <= 18014398509481980U;
      actor.expect(actor.call("cuFileDriverSetPollMode", joined(poll, ", ", size),
                              [&] { return cuFileDriverSetPollMode(poll, size); }),
                   {valid ? CU_FILE_SUCCESS : CU_FILE_DRIVER_UNSUPPORTED_LIMIT});
      break;
    }
    case 1: {
      actor.expect(
          actor.call("cuFileDriverSetMaxDirectIOSize", text, [&] { return cuFileDriverSetMaxDirectIOSize(size); }),
          {CU_FILE_SUCCESS, CU_FILE_DRIVER_UNSUPPORTED_LIMIT});
      break;
    }
    case 2: {
      actor.expect(actor.call("cuFileDriverSetMaxCacheSize", text, [&] { return cuFileDriverSetMaxCacheSize(size); }),
                   {CU_FILE_SUCCESS, CU_FILE_DRIVER_UNSUPPORTED_LIMIT, CU_FILE_INVALID_VALUE});
      break;
    }
    default:
      actor.expect(
          actor.call("cuFileDriverSetMaxPinnedMemSize", text, [&] { return cuFileDriverSetMaxPinnedMemSize(size); }),
          {CU_FILE_SUCCESS, CU_FILE_DRIVER_UNSUPPORTED_LIMIT, CU_FILE_INVALID_VALUE});
  }
}

void use_p2p_flags(Actor& actor) {
  const int kind = static_cast<int>(actor.draw(18)) - 2;
  const auto status = number_as<CUfileDriverStatusFlags_t>(kind);
  if (actor.one_in(2)) {
    const int mask = static_cast<int>(actor.draw(32));
    actor.expect(actor.call("cuFileDriverSetP2PFlags", joined(kind, ", ", mask),
                            [&] { return cuFileDriverSetP2PFlags(status, number_as<CUfileP2PFlags_t>(mask)); }),
                 {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE});
    return;
  }
  auto flags = CUFILE_P2P_MASK_RANGE;
  CUfileP2PFlags_t* const where = actor.one_in(4) ? nullptr : &flags;
  actor.expect(actor.call("cuFileDriverGetP2PFlags", joined(kind, where != nullptr ? ", &" : ", NULL"),
                          [&] { return cuFileDriverGetP2PFlags(status, where); }),
               {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE});
}

void export_topology(Actor& actor) {
  const std::string good = actor.world().folder() + "/topology.json";
  const char* const path = actor.one_of<const char*>({good.c_str(), nullptr, "", "/no/such/folder/x", "/proc/self"});
  actor.expect(actor.call("cuFileExportPCIeTopology", path != nullptr ? path : "NULL",
                          [&] { return cuFileExportPCIeTopology(path); }),
               {path == good.c_str() ? CU_FILE_SUCCESS : CU_FILE_INVALID_VALUE});
}

}  // namespace sluice::fuzz
