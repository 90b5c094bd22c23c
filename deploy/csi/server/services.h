// SPDX-License-Identifier: Apache-2.0
// The services that are served, each behind a thin adapter in a file of its own.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "server/driver.h"

namespace sluice::csi {

std::unique_ptr<grpc::Service> identity_service(DriverState& driver);
std::unique_ptr<grpc::Service> controller_service(DriverState& driver);
std::unique_ptr<grpc::Service> node_service(DriverState& driver);
// By which kubelet finds the driver.
std::unique_ptr<grpc::Service> registration_service(const Settings& settings);

}  // namespace sluice::csi
