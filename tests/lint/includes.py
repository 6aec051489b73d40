#!/usr/bin/env python3
"""Holds the direction of dependencies: which folder may include what (server/design/0001-layout.md).

Prints one line for every include that is not allowed and exits 1 if there is any. `--self-test` checks that planted
violations are found.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENGINE_API = r"server/engine/(types|engine|blocking)\.h"
KERNELS = r"kernels/(core|ops)/.*"
FOREIGN = {  # libraries that only the named files may see
    r"grpc(pp)?/.*": r"(server/rpc/.*|proto/wire/status_grpc\.(h|cc)|client/cpp/[^/]*\.(h|cc)|tests/.*)",
    r"(oneapi/dnnl/.*|dnnl.*)": r"kernels/cpu/dnnl.*",
    r"omp\.h": r"kernels/cpu/team\.cc",
    r"cuda.*|nvml.*|cublas.*": r"(kernels/(cuda|emulated)/.*|tests/(unit/(cuda_.*|emulated)|gpu)/.*)",
    r"(google/protobuf/.*|.*\.pb\.h)": r"(proto/.*|server/rpc/.*|client/cpp/[^/]*\.(h|cc)|tests/.*)",
    r"spdlog/.*": r"server/(observe/.*|main\.cc)",
    r"CLI/.*": r"(server/(main|flags)\.(cc|h)|client/cli/command\.cc)",
    r"(histedit|editline).*": r"client/cli/.*",
}
# First match wins: files, then what of ours they may include beside their own folder.
OURS = [
    (r"kernels/core/(half|dtype)\.h", [r"kernels/core/(half|dtype)\.(h|def)"]),
    (r"kernels/ops/(op\.h|philox\.h)", [r"kernels/ops/(ops|families)\.def"]),
    (r"kernels/ops/functors/.*", [r"kernels/core/(half|dtype)\.h", r"kernels/ops/(op|philox)\.h", r"kernels/ops/functors/.*"]),
    (r"kernels/core/.*", []),
    (r"kernels/ops/.*", [r"kernels/core/.*"]),
    (r"kernels/backend\.h", [KERNELS]),
    (r"kernels/cpu/.*", [r"kernels/cpu/.*", KERNELS, r"kernels/backend\.h"]),
    (r"kernels/emulated/.*", [r"kernels/emulated/.*", KERNELS, r"kernels/backend\.h", r"kernels/cuda/.*"]),
    (r"kernels/cuda/portable\.h", [r"kernels/emulated/device\.h"]),  # under g++
    (r"kernels/cuda/.*", [r"kernels/cuda/.*", KERNELS, r"kernels/backend\.h"]),
    (r"proto/.*", [r"proto/.*", r"tensord/v1/.*\.pb\.h", r"google/rpc/.*\.pb\.h", KERNELS, ENGINE_API]),
    (r"server/memory/.*", [r"kernels/core/.*"]),
    (r"server/model/.*", [KERNELS, r"server/engine/types\.h"]),
    (r"server/(engine|session)/.*", [KERNELS, r"kernels/backend\.h", r"server/(engine|session|memory|model)/.*"]),
    (r"server/observe/.*", [r"kernels/core/.*"]),
    (r"server/rpc/.*", [r"proto/wire/.*", r"tensord/v1/.*", r"google/rpc/.*", KERNELS, ENGINE_API, r"server/observe/.*"]),
    (r"server/[^/]*", [r".*"]),  # the composition root
    (r"client/cpp/include/.*", [r"tensord/.*"]),
    (r"client/cpp/expr/.*", [KERNELS, ENGINE_API, r"client/cpp/npy\.h"]),
    (r"client/cpp/[^/]*", [r"proto/wire/.*", r"tensord/.*", r"google/rpc/.*", KERNELS, ENGINE_API, r"client/cpp/.*"]),
    (r"client/cli/.*", [KERNELS, ENGINE_API, r"client/cpp/.*"]),
    (r"tests/.*", [r".*"]),
]
STANDARD_ONLY = (r"kernels/core/(half|dtype)\.h|kernels/ops/(op\.h|philox\.h|functors/.*)"
                 r"|kernels/cuda/(.*\.cuh?|portable.*)|kernels/emulated/device.*\.h")
OUR_PREFIX = re.compile(r"(kernels|server|client|proto|tests|tensord|google/rpc)/")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)


def violations(path: str, text: str):
    for kind, name in INCLUDE.findall(text):
        for library, files in FOREIGN.items():
            if re.fullmatch(library, name) and not re.fullmatch(files, path):
                yield f"{path}: {name} belongs to {files} alone"
        if re.fullmatch(STANDARD_ONLY, path) and name.startswith("absl/"):
            yield f"{path}: device code includes this file; the standard library only, not {name}"
        if kind == '"' and OUR_PREFIX.match(name):
            allowed = next(rule for pattern, rule in OURS if re.fullmatch(pattern, path))
            own = str(pathlib.PurePosixPath(path).parent) + "/"
            if not name.startswith(own) and not any(re.fullmatch(rule, name) for rule in allowed):
                yield f"{path}: may not include {name}"


def sources():
    for top in ("kernels", "server", "client", "proto", "tests"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in {".h", ".cc", ".cu", ".inc", ".cuh"} and path.is_file():
                yield path.relative_to(ROOT).as_posix(), path.read_text()


def self_test():
    planted = [
        ("kernels/core/shape.h", '#include "kernels/ops/op.h"'),
        ("kernels/ops/infer.cc", "#include <grpcpp/grpcpp.h>"),
        ("kernels/cpu/matmul.cc", "#include <dnnl.hpp>"),
        ("kernels/cpu/reduce.cc", "#include <omp.h>"),
        ("kernels/core/half.h", '#include "absl/strings/string_view.h"'),
        ("kernels/cuda/reduce.cu", '#include "absl/status/status.h"'),
        ("kernels/cpu/reduce.cc", '#include <cuda_runtime_api.h>'),
        ("server/engine/submit.cc", '#include "kernels/cpu/cpu_backend.h"'),
        ("server/engine/submit.cc", '#include "tensord/v1/tensor.pb.h"'),
        ("server/rpc/tensors.cc", '#include "server/engine/local_engine.h"'),
        ("client/cpp/include/tensord/tensor.h", '#include "kernels/core/dtype.h"'),
    ]
    missed = [p for p in planted if not list(violations(*p))]
    for path, text in missed:
        print(f"self-test: not found: {text} in {path}")
    return 1 if missed else 0


def main():
    if "--self-test" in sys.argv:
        return self_test()
    found = [line for path, text in sources() for line in violations(path, text)]
    print("\n".join(found) if found else "includes: every include is allowed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
