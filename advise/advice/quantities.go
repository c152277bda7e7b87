package advice

import (
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/study"
)

// Pushes.
var (
	debounce = define(Quantity{Name: "debounce", Unit: seconds, Measure: duringChanges,
		Words: "from an update to the end of debouncing, with push context, mean",
		Query: meanOf("pilot_debounce_time")})
	pushContext = define(Quantity{Name: "context", Unit: seconds, Measure: duringChanges,
		Words: "computing what all proxies share (push context), mean",
		Query: meanOf("pilot_pushcontext_init_seconds")})
	queue = define(Quantity{Name: "queue", Unit: seconds, Measure: duringChanges,
		Words: "waiting for a free push slot, mean over proxies",
		Query: meanOf("pilot_proxy_queue_time")})
	queueAndPush = define(Quantity{Name: "queue_and_push", Unit: seconds, Measure: duringChanges,
		Words: "from the end of debouncing until a proxy's configuration was sent, mean",
		Query: meanOf("pilot_proxy_convergence_time")})
	push = define(Quantity{Name: "push", Unit: seconds,
		Words:   "a proxy's turn, generating and sending, mean",
		Formula: func(m *mesh) float64 { return max(0, m.get(queueAndPush)-m.get(queue)) }})
	total = define(Quantity{Name: "total", Unit: seconds,
		Words:   "from an update to a proxy's configuration sent, mean",
		Formula: func(m *mesh) float64 { return m.get(debounce) + m.get(queueAndPush) }})
	pushP99 = define(Quantity{Name: "push_p99", Unit: seconds, Measure: duringChanges,
		Words: "from the end of debouncing until sent, p99",
		Query: "histogram_quantile(0.99, sum by (le) (rate(pilot_proxy_convergence_time_bucket{$i}[$w])))"})
	send = define(Quantity{Name: "send", Unit: seconds, Measure: duringChanges,
		Words: "sending, of a proxy's turn, mean",
		Query: perCount("pilot_xds_send_time", "pilot_proxy_convergence_time")})
	replicas = define(Quantity{Name: QuantityReplicas, Measure: readMetrics,
		Words: "istiod's replicas",
		Lever: controlplane.FactorIstiodReplicas, Query: "count(process_start_time_seconds{$p})"})
	// Each replica makes its own round for each change, and pushes to its own proxies.
	roundsOfAll = define(Quantity{Name: "rounds_of_all", Unit: perSecond, Measure: readMetrics,
		Words: "rounds of pushes, all replicas",
		Query: rateOf("pilot_pushcontext_init_seconds_count{$i}")})
	rounds = define(Quantity{Name: "rounds_per_s", Unit: perSecond,
		Words:   "rounds of pushes, per replica",
		Formula: func(m *mesh) float64 { return m.get(roundsOfAll) / m.get(replicas) }})
	// Every update that requests a push counts as config. The types eds, svc and svcdelete
	// count some of these again, as well as updates that request none (EDSUpdate and SvcUpdate
	// in istiod's source).
	updatesOfAll = define(Quantity{Name: "updates_of_all", Unit: perSecond, Measure: readMetrics,
		Words: "updates that asked for a push, all replicas",
		Query: rateOf(`pilot_inbound_updates{type="config"$,}`)})
	updates = define(Quantity{Name: QuantityUpdates, Unit: perSecond,
		Words:   "updates that asked for a push, per replica",
		Formula: func(m *mesh) float64 { return m.get(updatesOfAll) / m.get(replicas) }})
	updatesPerRound = define(Quantity{Name: "updates_per_round",
		Words:   "updates merged into a round of pushes",
		Formula: func(m *mesh) float64 { return m.get(updates) / m.get(rounds) }})
	turns = define(Quantity{Name: "turns_per_s", Unit: perSecond, Measure: readMetrics,
		Words: "proxies' turns, all replicas",
		Query: rateOf("pilot_proxy_convergence_time_count{$i}")})
	turnsPerRound = define(Quantity{Name: "turns_per_round",
		Words:   "proxies that had a turn in a replica's round",
		Formula: func(m *mesh) float64 { return m.get(turns) / m.get(roundsOfAll) }})
	proxies = define(Quantity{Name: QuantityProxies, Measure: readMetrics,
		Words: "proxies connected",
		Query: "sum(pilot_xds{$i})"})
	_ = define(Quantity{Name: QuantityClusters, Measure: readMetrics,
		Words: "clusters whose API servers istiod watches",
		Query: "max(sum by (pod, instance) (istiod_managed_clusters{$i}))"})
	// The mean over n turns that wait for each other is n/2 turns.
	concurrentTurns = define(Quantity{Name: "at_once",
		Words: "concurrent turns, all replicas, derived from how long turns wait",
		Formula: func(m *mesh) float64 {
			return m.get(replicas) * m.get(turnsPerRound) * m.get(push) / (2 * m.get(queue))
		}})
	contexts = define(Quantity{Name: "contexts", Measure: duringChanges,
		Words: "seconds of computing push contexts in a second, all replicas",
		Query: rateOf("pilot_pushcontext_init_seconds_sum{$i}")})
	bytesPerTurn = define(Quantity{Name: "bytes_per_turn", Unit: bytes, Measure: duringChanges,
		Words: "configuration sent to a proxy in a turn",
		Query: perCount("pilot_xds_config_size_bytes", "pilot_proxy_convergence_time")})
)

// CPU, locks and memory.
var (
	procs = define(Quantity{Name: "procs", Unit: cores, Measure: readMetrics,
		Words: "processors that istiod's Go runtime uses, all replicas",
		Query: "sum(go_sched_gomaxprocs_threads{$p})"})
	cpuLimit = define(Quantity{Name: "cpu_limit", Unit: cores, Measure: readLimits,
		Words: "CPU limit of a replica", Lever: controlplane.FactorIstiodCPU})
	// istiod reports its processors since Istio 1.24; before, only a CPU limit shows them.
	cpuAvailable = define(Quantity{Name: QuantityCPUs, Unit: cores,
		Words: "CPU that istiod may use, all replicas",
		Formula: func(m *mesh) float64 {
			limit := m.get(cpuLimit) * m.get(replicas)
			return firstKnown(min(limit, m.get(procs)), m.get(procs), limit)
		}})
	cpu = define(Quantity{Name: "cpu", Unit: cores, Measure: readMetrics,
		Words: "CPU that istiod used, all replicas",
		Query: rateOf("process_cpu_seconds_total{$p}")})
	cpuShare = define(Quantity{Name: "cpu_share", Unit: ratio,
		Words:   "share of the CPU that istiod may use",
		Formula: func(m *mesh) float64 { return m.get(cpu) / m.get(cpuAvailable) }})
	// CPUIdle is a fact that only runs have. It needs no Measure, as cpu_net works without it.
	CPUIdle = define(Quantity{Name: "cpu_idle", Unit: cores,
		Words: "CPU that istiod uses while nothing changes"})
	cpuNet = define(Quantity{Name: "cpu_net", Unit: cores,
		Words:   "CPU for changes",
		Formula: func(m *mesh) float64 { return firstKnown(max(0, m.get(cpu)-m.get(CPUIdle)), m.get(cpu)) }})
	pushing = define(Quantity{Name: "pushing", Unit: ratio,
		Words: "share of the time in which istiod pushes",
		Formula: func(m *mesh) float64 {
			return min(1, m.get(rounds)*(m.get(pushContext)+2*m.get(queue)+m.get(push)))
		}})
	// This treats all of istiod's CPU time as used for pushes. If pushes take little of the
	// time, nearly all of it is used for other things, and only a small value is meaningful.
	cpuWhilePushing = define(Quantity{Name: "cpu_while_pushing", Unit: ratio,
		Words:   "share of the CPU that istiod may use, while it pushes, at most",
		Measure: "read istiod's metrics while so much changes that it pushes for a twentieth of the time or more",
		Formula: func(m *mesh) float64 {
			net, pushing := m.get(cpuNet), m.get(pushing)
			used := net / (pushing * m.get(cpuAvailable))
			if used >= 0.5 && pushing < 0.05 {
				return unknown
			}
			return min(1, used)
		}})
	// A turn that waits for a CPU takes longer but uses no more CPU time.
	onCPU = define(Quantity{Name: "while_waiting", Unit: ratio,
		Words: "share of a turn on a CPU, where there are more concurrent turns than CPUs",
		Formula: func(m *mesh) float64 {
			concurrent, cpus := m.get(concurrentTurns), m.get(cpuAvailable)
			return firstKnown(choose(above(concurrent, cpus), cpus/concurrent, 1),
				choose(equal(m.get(queue), 0), 1, unknown))
		}})
	turning = define(Quantity{Name: "turning",
		Words: "concurrent turns, mean, without sending",
		Formula: func(m *mesh) float64 {
			push, send, turns := m.get(push), m.get(send), m.get(turns)
			return firstKnown(choose(above(push, send), turns*(push-send), 0), turns*push)
		}})
	cpuOut = define(Quantity{Name: "cpu_out", Unit: cores,
		Words:   "CPU for proxies' turns, estimated from their duration",
		Formula: func(m *mesh) float64 { return min(m.get(onCPU)*m.get(turning), m.get(cpuNet)) }})
	cpuIn = define(Quantity{Name: "cpu_in", Unit: cores,
		Words:   "the rest of the CPU for changes: receiving them and push contexts",
		Formula: func(m *mesh) float64 { return m.get(cpuNet) - m.get(cpuOut) }})
	// Throttled comes from cgroups in a run and from cAdvisor in a cluster, which reports it
	// only for containers with a limit. Some cAdvisors know pods alone.
	Throttled = define(Quantity{Name: "throttled_of_all",
		Words:   "seconds held back by the CPU limit in a second, all replicas",
		Measure: "read the kubelets' cAdvisor metrics (the right to get nodes/proxy), or run a study",
		Query: rateOf("container_cpu_cfs_throttled_seconds_total{$c}") +
			" or sum(max by (pod) (rate(container_cpu_cfs_throttled_seconds_total{container=\"\",$d}[$w])))",
		Formula: func(m *mesh) float64 {
			return choose(m.leverIs(controlplane.FactorIstiodCPU, study.LevelNone), 0, unknown)
		}})
	throttled = define(Quantity{Name: "throttled", Unit: ratio,
		Words:   "share of the time in which the CPU limit held a replica back, mean (added up over CPUs)",
		Formula: func(m *mesh) float64 { return m.get(Throttled) / m.get(replicas) }})
	// MachineBusy comes from the root cgroup of the nodes that istiod runs on.
	MachineBusy = define(Quantity{Name: "machine_busy", Unit: ratio,
		Words:   "share of the machine's CPU in use",
		Measure: "read the kubelets' cAdvisor metrics (the right to get nodes/proxy), or run a study",
		Query: "sum(" + onNodes("rate(container_cpu_usage_seconds_total{id=\"/\"}[$w])") + ") / sum(" +
			onNodes("machine_cpu_cores") + ")"})
	LocksWaiting = define(Quantity{Name: "locks_waiting",
		Words:   "goroutines waiting for a lock, mean (mutex profile)",
		Measure: "take a mutex profile while configuration changes; a control-plane study takes one in each cell"})
	turnsDuringProfile = define(Quantity{Name: "pushing_then",
		Words:   "concurrent turns while the profile was taken, mean",
		Formula: func(m *mesh) float64 { return m.get(turns) * m.get(push) }})
	locksShare = define(Quantity{Name: "locks_share", Unit: ratio,
		Words: "share of proxies' turns spent waiting for locks",
		Formula: func(m *mesh) float64 {
			waiting, turns := m.get(LocksWaiting), m.get(turnsDuringProfile)
			return choose(below(waiting, turns), waiting/turns, 1)
		}})
	memory = define(Quantity{Name: "memory", Unit: bytes, Measure: readMetrics,
		Words: "memory of istiod's processes, all replicas",
		Query: "sum(process_resident_memory_bytes{$p})"})
	memoryFullest = define(Quantity{Name: "memory_fullest", Unit: bytes, Measure: readMetrics,
		Words: "memory of the fullest replica",
		Query: "max(sum by (pod) (process_resident_memory_bytes{$p}))", PerReplica: true,
		Formula: func(m *mesh) float64 { return m.get(memory) / m.get(replicas) }})
	memoryLimit = define(Quantity{Name: "memory_limit", Unit: bytes, Measure: readLimits,
		Words: "memory limit of a replica", Lever: controlplane.FactorIstiodMemory})
	memoryShare = define(Quantity{Name: "memory_share", Unit: ratio,
		Words:   "share of its memory limit that the fullest replica uses",
		Formula: func(m *mesh) float64 { return m.get(memoryFullest) / m.get(memoryLimit) }})
	memoryNext = define(Quantity{Name: "memory_next", Unit: bytes,
		Words:   "1.5 times the memory limit",
		Formula: func(m *mesh) float64 { return 1.5 * m.get(memoryLimit) }})
)

// Settings, and levels derived from them.
var (
	debounceAfter = define(Quantity{Name: QuantityDebounceAfter, Unit: seconds, Measure: readEnvironment,
		Words: "PILOT_DEBOUNCE_AFTER", Lever: study.FactorDebounceAfter})
	debounceMax = define(Quantity{Name: QuantityDebounceMax, Unit: seconds, Measure: readEnvironment,
		Words: "PILOT_DEBOUNCE_MAX", Lever: controlplane.FactorDebounceMax})
	requestLimit = define(Quantity{Name: QuantityRequestLimit, Unit: perSecond, Measure: readEnvironment,
		Words: "PILOT_MAX_REQUESTS_PER_SECOND", Lever: controlplane.FactorRequestLimit})
	connectionAge = define(Quantity{Name: QuantityConnectionAge, Unit: seconds, Measure: "read istiod's arguments",
		Words: "keepaliveMaxServerConnectionAge", Lever: controlplane.FactorConnectionAge})
	throttleDefault = define(Quantity{Name: "throttle_default",
		Words:   "concurrent pushes that istiod allows by default",
		Formula: func(m *mesh) float64 { return min(100, 15+5*m.get(procs)/m.get(replicas)) }})
	throttle = define(Quantity{Name: QuantityThrottle, Measure: readEnvironment,
		Words: "PILOT_PUSH_THROTTLE, of a replica", Lever: controlplane.FactorPushThrottle,
		Formula: func(m *mesh) float64 {
			return choose(m.leverIs(controlplane.FactorPushThrottle, study.LevelDefault), m.get(throttleDefault), unknown)
		}})
	throttleNext = define(Quantity{Name: "throttle_next",
		Words:   "PILOT_PUSH_THROTTLE, 30% more",
		Formula: func(m *mesh) float64 { return 1.3*m.get(throttle) + 0.5 }})
	throttleLess = define(Quantity{Name: "throttle_less",
		Words:   "twice the CPUs that a replica may use",
		Formula: func(m *mesh) float64 { return max(2, 2*m.get(cpuAvailable)/m.get(replicas)) }})
	cpuNext = define(Quantity{Name: "cpu_next", Unit: cores,
		Words:   "twice the CPU limit",
		Formula: func(m *mesh) float64 { return 2 * m.get(cpuLimit) }})
	replicasNext = define(Quantity{Name: "replicas_next",
		Words:   "one replica more",
		Formula: func(m *mesh) float64 { return m.get(replicas) + 1 }})
)

// Connections, rejected configuration and writes without effect.
var (
	// A replica that no proxy has ever connected to does not export pilot_xds.
	busiestReplica = define(Quantity{Name: "busiest_replica", Unit: ratio, Measure: readReplicas, PerReplica: true,
		Words: "proxies of the busiest replica, relative to the mean",
		Query: "max(sum by (pod) (pilot_xds{$i})) * count(sum by (pod) (process_start_time_seconds{$p})) /" +
			" sum(pilot_xds{$i})"})
	busiestByChance = define(Quantity{Name: "busiest_by_chance", Unit: ratio, Measure: readReplicas, PerReplica: true,
		Words: "the same at most if each proxy takes a replica at random (three standard deviations)",
		Query: "1 + 3 * sqrt((count(sum by (pod) (process_start_time_seconds{$p})) - 1) / sum(pilot_xds{$i}))"})
	// istiod does not count connections. It sends clusters to a proxy that connects, and also
	// in some turns, but not in turns that push only endpoints: the truth lies between two
	// bounds.
	growth = define(Quantity{Name: "growth", Unit: perSecond, Measure: readMetrics,
		Words: "rise of the number of proxies",
		Query: "clamp_min(sum(deriv(pilot_xds{$i}[$w])), 0)"})
	triggers = define(Quantity{Name: "triggers_per_s", Unit: perSecond, Measure: readMetrics,
		Words: "reasons for proxies' turns other than endpoints, all replicas",
		Query: orZero(rateOf(`pilot_push_triggers{type!="endpoint"$,}`))})
	connectsMost = define(Quantity{Name: "connects_most", Unit: perSecond, Measure: readMetrics,
		Words: "proxies that reconnect, at most",
		Query: orZero(rateOf(`pilot_xds_pushes{type="cds"$,}`))})
	connectsLeast = define(Quantity{Name: "connects_least", Unit: perSecond,
		Words: "proxies that reconnect, at least",
		Formula: func(m *mesh) float64 {
			return max(0, m.get(connectsMost)-m.get(growth)-min(m.get(triggers), m.get(turns)))
		}})
	Connects = define(Quantity{Name: "connects_per_s", Unit: perSecond,
		Words:   "proxies that reconnect",
		Measure: `watch while no configuration changes, or look for "new delta connection" in istiod's log`,
		Formula: func(m *mesh) float64 {
			most, proxies, least := m.get(connectsMost), m.get(proxies), m.get(connectsLeast)
			few := either(below(60*most, 0.5*proxies), below(most, 0.5))
			many := all(atLeast(60*least, 0.5*proxies), atLeast(least, 0.5))
			return choose(few, most, choose(many, least, unknown))
		}})
	Restarts = define(Quantity{Name: "restarts", Measure: readMetrics,
		Words: "replicas of istiod that have started in the last two minutes, or within the trial",
		Query: "count(istiod_uptime_seconds{$i} < 120) or 0 * count(istiod_uptime_seconds{$i})"})
	rejects = define(Quantity{Name: "rejects_per_s", Unit: perSecond, Measure: readMetrics,
		Words: "configurations that proxies rejected",
		Query: orZero(rateOf("pilot_total_xds_rejects{$i}"))})
	// istiod sends rejected configuration again only when it changes, and only then is it
	// rejected again.
	rejectedEver = define(Quantity{Name: "rejected_ever", Measure: readMetrics,
		Words: "configurations that proxies rejected since istiod began",
		Query: orZero("sum(pilot_total_xds_rejects{$i})")})
	rejectedBefore = define(Quantity{Name: "rejected_before",
		Words: "whether proxies still run on the version before one that they rejected earlier",
		Measure: "proxies rejected configuration before this: istioctl proxy-status shows who is stale, or watch" +
			" while what they rejected changes",
		Formula: func(m *mesh) float64 {
			return choose(either(above(m.get(rejects), 0), equal(m.get(rejectedEver), 0)), 0, unknown)
		}})
	IdenticalShare = define(Quantity{Name: "identical_share", Unit: ratio, Finding: "identical_share",
		Words: "share of the bytes pushed in resources that the proxy already had unchanged",
		Measure: "run a control-plane study with measure amplification, whose simulated sidecars compare what" +
			" they get"})
	IdleWritesShare = define(Quantity{Name: "idle_writes_share", Unit: ratio, Measure: watchWrites,
		Words: "share of the writes of Services, EndpointSlices and Istio's objects that change nothing proxies need"})
	IdleWrites = define(Quantity{Name: "idle_writes_per_s", Unit: perSecond, Measure: watchWrites,
		Words: "writes that change nothing proxies need"})
	UsefulWrites = define(Quantity{Name: "useful_writes_per_s", Unit: perSecond, Measure: watchWrites,
		Words: "writes that change something"})
)

// Configuration that proxies hold.
var (
	ConfigDumpBytes = define(Quantity{Name: "config_dump_bytes", Unit: bytes, Measure: sizeProxies,
		Words: "config dump of a proxy, median"})
	// JSON is 3.9 times as large for the proxy of which kinds/testdata has both sizes.
	ConfigBytes = define(Quantity{Name: "config_bytes", Unit: bytes, Measure: sizeProxies, Finding: "config_bytes",
		Words:   "configuration that a proxy holds, as it is sent (a config dump is four times that), median",
		Formula: func(m *mesh) float64 { return m.get(ConfigDumpBytes) / 4 }})
	UnusedShare = define(Quantity{Name: "unused_share", Unit: ratio, Measure: countCalls,
		Words: "share of the clusters in proxies that were never called"})
	UnusedClusters = define(Quantity{Name: "unused_clusters", Measure: countCalls,
		Words: "clusters that a proxy holds and has never called, mean"})
	configLeast = define(Quantity{Name: "config_least", Unit: bytes,
		Words: "configuration that a proxy holds at least with a Sidecar",
		Formula: func(m *mesh) float64 {
			held := m.get(ConfigBytes)
			return firstKnown(0.5*held*(1-m.get(UnusedShare)), 0.01*held)
		}})
	ScopedShare = define(Quantity{Name: "scoped_share", Unit: ratio,
		Words:   "share of the proxies that were read with a Sidecar of their own namespace",
		Measure: "meshtrial assess limits of a running mesh reads the Sidecars of the proxies that it reads"})
	DNSClusters = define(Quantity{Name: "dns_clusters", Measure: readProxies,
		Words: "clusters that a proxy resolves by DNS itself (STRICT_DNS, LOGICAL_DNS), the most of any that was read"})
	DNSClustersMean = define(Quantity{Name: "dns_clusters_mean", Measure: readProxies,
		Words: "clusters that a proxy resolves by DNS itself, mean of those that were read"})
	// istiod sets respect_dns_ttl in every such cluster (cluster_builder.go), so a name is
	// resolved again after its TTL, or after dnsRefreshRate (60 s) if resolution failed.
	// CoreDNS's cache, as installed by kubeadm (cache 30), gives no answer a longer TTL.
	dnsQuestions = define(Quantity{Name: "dns_questions_per_s", Unit: perSecond,
		Words: "names that all proxies together resolve in a second, at least (clusters times proxies, each 30 s," +
			" the longest TTL behind CoreDNS as kubeadm installs it)",
		Formula: func(m *mesh) float64 { return m.get(DNSClustersMean) * m.get(proxies) / 30 }})
	HeadlessListeners = define(Quantity{Name: "headless_listeners", Measure: readProxies,
		Words: "listeners for single endpoints of headless Services that a proxy holds, the most of any that was read"})
	HeadlessShare = define(Quantity{Name: "headless_share", Unit: ratio, Measure: readProxies,
		Words: "share of that proxy's configuration in these listeners"})
	// Each proxy that has a turn counts its push reasons once (recordPushTriggers in istiod's
	// source), including those of HTTP ports, which do not add listeners.
	headlessTriggers = define(Quantity{Name: "headless_triggers_per_s", Unit: perSecond, Measure: duringChanges,
		Words: "proxies' turns in which endpoints of headless Services had changed, all replicas",
		Query: orZero(rateOf(`pilot_push_triggers{type="headlessendpoint"$,}`))})
	listenerPushes = define(Quantity{Name: "listener_pushes_per_s", Unit: perSecond, Measure: duringChanges,
		Words: "pushes of listeners, all replicas",
		Query: orZero(rateOf(`pilot_xds_pushes{type="lds"$,}`))})
	headlessTurns = define(Quantity{Name: "headless_turns_per_s", Unit: perSecond,
		Words:   "turns among these that brought listeners, at most",
		Formula: func(m *mesh) float64 { return min(m.get(headlessTriggers), m.get(listenerPushes)) }})
)

// Sidecars.
var (
	AccessLogShare = define(Quantity{Name: "access_log_share", Unit: ratio,
		Words:   "share of a sidecar's CPU time for a request that the access log takes",
		Measure: "meshtrial run filter-bill"})
	FilterShare = define(Quantity{Name: "filter_share", Unit: ratio,
		Words:   "share of that time that the most expensive extension takes (EnvoyFilter, Lua, WebAssembly)",
		Measure: "meshtrial run filter-bill with your EnvoyFilter among its parts"})
	WorkerBusiest = define(Quantity{Name: "worker_busiest", Unit: ratio, Measure: recordThreads,
		Words: "share of the time that a sidecar's busiest worker thread ran"})
	WorkerThreads = define(Quantity{Name: "worker_threads", Measure: recordThreads,
		Words: "worker threads of the sidecar that has too few"})
	workerThreadsNext = define(Quantity{Name: "worker_threads_next",
		Words:   "twice as many worker threads",
		Formula: func(m *mesh) float64 { return 2 * m.get(WorkerThreads) }})
	ProxyCPULimit = define(Quantity{Name: "proxy_cpu_limit", Unit: cores, Measure: recordThreads,
		Words: "CPU limit of the sidecar that it holds back"})
	proxyCPULimitNext = define(Quantity{Name: "proxy_cpu_limit_next", Unit: cores,
		Words:   "twice the sidecar's CPU limit",
		Formula: func(m *mesh) float64 { return 2 * m.get(ProxyCPULimit) }})
	ProxyThrottled = define(Quantity{Name: "proxy_throttled", Unit: ratio, Measure: recordThreads,
		Words: "share of the periods in which a sidecar's CPU limit was used up"})
)
