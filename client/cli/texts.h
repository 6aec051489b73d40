// What tensorctl says about itself: help, examples, the tutorial.
#pragma once

#include <string_view>

namespace tensord::cli {

inline constexpr std::string_view kAbout =
    "tensorctl: tensors and models on the devices of a tensord daemon.\n"
    "Tensors live there under names; commands and expressions work on names, and `get` brings one home.";

inline constexpr std::string_view kExamples = R"(Examples:
  tensorctl devices                                  what there is, and who holds its memory
  tensorctl create X --shape 2,3 --device cuda:0 --fill rand
  tensorctl put weights.npy W --device cuda:0        a file goes up
  tensorctl run 'Y = relu(X @ W.T); Y.mean()'        compute with names; an assignment makes a name
  tensorctl cat Y                                    print it as PyTorch prints it
  tensorctl get Y y.npy                              bring it home
  tensorctl mv X cpu                                 to the daemon's CPU
  tensorctl shell                                    a session: type help
  tensorctl explain DEVICE_MISMATCH                  what an error means and what to do
  tensorctl -o json ls | jq                          everything also speaks JSON

Exit codes: 0 done; 2 wrong usage; 3 mend the request (INVALID_ARGUMENT, OUT_OF_RANGE); 4 not there (NOT_FOUND);
5 change the state first (FAILED_PRECONDITION, ABORTED, ALREADY_EXISTS); 6 memory or quota (RESOURCE_EXHAUSTED);
7 not offered (UNIMPLEMENTED); 8 try later (UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED);
9 not allowed (UNAUTHENTICATED, PERMISSION_DENIED); 1 anything else.
)";

inline constexpr std::string_view kTutorial =
    R"(x.cpu() moves a tensor to the *daemon's* CPU. `tensorctl get NAME FILE.npy` brings it home.

Every tensor lives on a device of the daemon; nothing is moved unless you say so.

  >>> try_all_gpus()                          the GPUs there are, or the CPU
  >>> X = ones(2, 3, device=try_gpu())        an assignment publishes the name: `tensorctl ls` and others see it
  >>> X                                       prints it; only what is shown crosses the network
  >>> Y = rand(2, 3, device=try_gpu(1))       no second GPU: falls back to the CPU
  >>> Y.device
  >>> X + Y                                   refused: two devices. The message has the call that mends it
  >>> Z = Y.cuda(0)                           a copy on cuda:0
  >>> Z.cuda(0) is Z                          True: it is there already, nothing is copied
  >>> X + Z
  >>> net = nn.Sequential(nn.Linear(3, 1))    a model, on the CPU
  >>> net(X)                                  refused: parameters on cpu, input on cuda:0
  >>> net = net.to(device=try_gpu())
  >>> net(X)
  >>> net[0].weight.data.device
  >>> ones(2, device="cuda:7")                refused, with the devices there are

Names that begin with _ and values that are no tensors (numbers, lists, devices) end with the shell; the commands
(create, put, cp, mv) refuse such names.
Operators, indexing, keywords and methods are Python's; functions and methods are those of PyTorch and the array API:
X.sum(axis=0), X[0, ::2], X @ Y.T, where(X > 0, X, 0), softmax(X, dim=1), X.to(float16), concat([X, Z]).
named("encoder.weight") is a name that Python could not write.
help(add) tells about one function, `tensorctl ops` lists all. del X removes a name. exit, or Ctrl-D, ends the shell.
)";

inline constexpr std::string_view kShellHelp =
    R"(A session with the daemon: each line is an expression, which prints its value, or an assignment, which makes a
name. With a terminal there is history (~/.tensorctl_history) and completion by Tab; otherwise lines come from standard
input, a line that fails prints its error, and the next line runs. Lines that begin with >>> or ... may be pasted from a
Python session.

)";

}  // namespace tensord::cli
