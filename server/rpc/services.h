// Private to this folder. One factory a service; each is a file of its own.
#pragma once

#include <memory>

#include "grpcpp/impl/service_type.h"
#include "server/rpc/call.h"

namespace tensord::rpc {

// `services` outlives the service.
std::unique_ptr<grpc::Service> MakeDevicesService(Services& services);
std::unique_ptr<grpc::Service> MakeSessionsService(Services& services);
std::unique_ptr<grpc::Service> MakeTensorsService(Services& services);
std::unique_ptr<grpc::Service> MakeComputeService(Services& services);
std::unique_ptr<grpc::Service> MakeModelsService(Services& services);

}  // namespace tensord::rpc
