# x.cpu() moves to the daemon's CPU; `tensorctl get` brings a tensor home.
try_all_gpus()
X = ones(2, 3, device=try_gpu())
X
Y = rand(2, 3, device=try_gpu(1))
Y.device
X + Y                                    # error: two devices
Z = Y.cuda(0)
Z.cuda(0) is Z
X + Z
net = nn.Sequential(nn.Linear(3, 1))
net(X)                                   # error: parameters on cpu, input on cuda:0
net = net.to(device=try_gpu())
net(X)
net[0].weight.data.device
ones(2, device="cuda:7")                 # error: no such device
