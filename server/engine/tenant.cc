#include "server/engine/tenant.h"

#include <utility>

#include "server/engine/executor.h"

namespace tensord {

Principal::Principal(std::string name_, size_t devices) : name(std::move(name_)), turns(devices) {}
Principal::~Principal() = default;

Tenant::Tenant(std::shared_ptr<Principal> principal_, Ref<Account> account_, size_t devices)
    : principal(std::move(principal_)), account(std::move(account_)), lanes(devices) {}
Tenant::~Tenant() = default;

}  // namespace tensord
