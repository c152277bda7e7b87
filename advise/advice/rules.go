package advice

import (
	"fmt"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Conditions and steps that several rules share.

func unscoped(m *mesh) Truth {
	return m.leverIs(controlplane.FactorSidecarScope, controlplane.SidecarScopeNone)
}

// heldBack rules out problems that the CPU limit explains.
var heldBack = Clause{Text: "the CPU limit held istiod back",
	When: func(m *mesh) Truth { return atLeast(m.get(throttled), 0.05) }}

// readersBlock rules out problems that slowly reading proxies explain.
func readersBlock(m *mesh) Truth { return atLeast(m.get(send), 0.5*m.get(push)) }

// debouncing returns the time of waiting for further changes: the debounce time without the push
// context.
func debouncing(m *mesh) float64 { return m.get(debounce) - m.get(pushContext) }

// longDebouncing reports whether most of the delay is waiting for further changes.
func longDebouncing(m *mesh) Truth {
	return all(atLeast(debouncing(m), 0.5), atLeast(debouncing(m), 0.5*m.get(total)))
}

// ofTotal returns a part's share of the delay from an update to sending the configuration.
func ofTotal(part func(*mesh) float64) func(*mesh) float64 {
	return func(m *mesh) float64 { return part(m) / m.get(total) }
}

// contextBlocks rules out problems that the push context explains.
var contextBlocks = Clause{Text: "computing the push context takes half of it or more",
	When: func(m *mesh) Truth { return atLeast(m.get(pushContext), 0.5*m.get(debounce)) }}

// usedUp rules out problems that a busy CPU explains, from the given CPU share during pushes.
func usedUp(while float64) Clause {
	return Clause{Text: "istiod's CPU is used up while it pushes", When: func(m *mesh) Truth {
		return all(atLeast(m.get(cpuShare), 0.05), atLeast(m.get(cpuWhilePushing), while))
	}}
}

// scope reduces the configuration of proxies, unless a mesh-wide Sidecar already does.
var scope = Try{Lever: controlplane.FactorSidecarScope, Level: controlplane.SidecarScopeMesh, If: unscoped}

// scopeTo is scope with a reason.
func scopeTo(do string) Try {
	t := scope
	t.Do = do
	return t
}

// moreSlots allows more concurrent pushes.
func moreSlots(do string, when func(*mesh) Truth) Try {
	return Try{Lever: controlplane.FactorPushThrottle, LevelOf: throttleNext, Do: do, If: when,
		Effect: &Effect{Of: queue, From: "arithmetic: waiting falls at most as slots rise",
			Between: func(m *mesh) (low, high float64) {
				wait := m.get(queue)
				return 0.9 * wait * m.get(throttle) / m.get(throttleNext), 0.98 * wait
			}}}
}

// fewerRounds merges more changes into each round.
func fewerRounds(do string) Try {
	return Try{Lever: study.FactorDebounceAfter, Level: "1s", Do: do,
		If: func(m *mesh) Truth { return all(below(m.get(debounceAfter), 0.5), above(m.get(rounds), 1)) },
		Effect: &Effect{Of: rounds,
			From: "arithmetic: at most one round a second, and one in twice PILOT_DEBOUNCE_MAX where changes" +
				" never pause",
			Between: func(m *mesh) (low, high float64) {
				return 0.5 / m.get(debounceMax), min(1, 0.95*m.get(rounds))
			}}}
}

// Texts that several rules use.
const (
	formerVariable = "Set the variable to its former value."
	formerLimit    = "Apply the former limit again."
	inAction       = "Istio in Action, chapter 11"
)

// rules lists all rules, in the order of the report's table.
var rules = []Rule{
	{
		Code:  "cpu_limit",
		Title: "istiod's CPU limit holds it back",
		Condition: "the CPU limit holds istiod's threads back for 5% of the time or more, and a push takes 0.1" +
			" s or more",
		Says: say("The CPU limit of %s a replica held istiod's threads back for %s of the time; a push takes %s from"+
			" the end of debouncing until sent.", cpuLimit, throttled, queueAndPush),
		When: func(m *mesh) Truth { return all(atLeast(m.get(throttled), 0.05), atLeast(m.get(queueAndPush), 0.1)) },
		Supports: []Clause{{Text: "istiod runs more threads than its limit lets run", When: func(m *mesh) Truth {
			return either(below(m.get(cpuLimit)*m.get(replicas), m.get(procs)), atLeast(m.get(cpuWhilePushing), 0.5))
		}}},
		Shows: []*Quantity{throttled, cpuLimit, cpu, cpuWhilePushing, queueAndPush, pushP99, procs},
		Share: ofTotal(valueOf(queueAndPush)),
		Try: []Try{
			{Lever: controlplane.FactorIstiodCPU, LevelOf: cpuNext},
			{Lever: controlplane.FactorIstiodCPU, Level: study.LevelNone,
				Do: "A request keeps istiod's share where CPU is short; a limit only takes away what nobody" +
					" else wants."},
		},
		Effect:  scaled(queueAndPush, 0, 0.7),
		Sources: []string{inAction + ": first optimise, then add resources", "study control-plane-levers (istiod_cpu)"},
		Risk:    "istiod takes CPU that neighbours on its node used.",
		Back:    formerLimit,
	},
	{
		Code:  "debounce_long",
		Title: "istiod waits too long for further changes",
		Condition: "debouncing takes 0.5 s or more and half of the time until a proxy's configuration is sent, and" +
			" PILOT_DEBOUNCE_AFTER is 0.4 s or more",
		Says: say("An update waits %s before it is pushed, of %s until a proxy's configuration is sent;"+
			" PILOT_DEBOUNCE_AFTER is %s.", debounce, total, debounceAfter),
		When:   func(m *mesh) Truth { return all(longDebouncing(m), atLeast(m.get(debounceAfter), 0.4)) },
		Unless: []Clause{contextBlocks},
		Supports: []Clause{{Text: "istiod's own timer agrees with the setting", When: func(m *mesh) Truth {
			waited := m.get(debounce)
			return either(atLeast(waited, 0.9*m.get(debounceAfter)), atLeast(waited, 0.9*m.get(debounceMax)))
		}}},
		Shows: []*Quantity{debounce, debounceAfter, pushContext, queue, push, total, updatesPerRound},
		Share: ofTotal(debouncing),
		Try: []Try{{Lever: study.FactorDebounceAfter, Level: "100ms",
			Do: "Go there by 10 to 30% a step, and watch pushes and CPU for a day or two after each."}},
		Effect: Effect{Of: total, From: "arithmetic: a few waits of 100 ms, and pushes that take half to twice as long",
			Between: func(m *mesh) (low, high float64) {
				sent := m.get(queueAndPush)
				return 0.5*sent + 0.1, 2*sent + m.get(pushContext) + 0.4
			}},
		Sources: []string{inAction + ": PILOT_DEBOUNCE_AFTER=2500ms saved 7 of 70 pushes",
			"study control-plane-tuning (debounce_after)"},
		Risk: "More rounds of pushes, as fewer changes are merged; istiod's CPU rises with them.",
		Back: formerVariable,
	},
	{
		Code:  "debounce_restless",
		Title: "Changes come so fast that istiod waits until debounce_max",
		Condition: "debouncing takes 0.5 s or more, half of the time until a proxy's configuration is sent, and" +
			" three times PILOT_DEBOUNCE_AFTER, which is below 0.4 s",
		Says: say("An update waits %s before it is pushed though PILOT_DEBOUNCE_AFTER is %s; %s updates come, %s are"+
			" merged into each round.", debounce, debounceAfter, updates, updatesPerRound),
		When: func(m *mesh) Truth {
			return all(longDebouncing(m), below(m.get(debounceAfter), 0.4),
				atLeast(debouncing(m), 3*m.get(debounceAfter)))
		},
		Unless: []Clause{contextBlocks},
		Supports: []Clause{{Text: "many updates are merged into a round",
			When: func(m *mesh) Truth { return atLeast(m.get(updatesPerRound), 3) }}},
		Shows: []*Quantity{debounce, debounceAfter, debounceMax, pushContext, updates, updatesPerRound, total},
		Share: ofTotal(debouncing),
		Try: []Try{
			{Lever: controlplane.FactorDebounceMax, Level: "1s",
				If: func(m *mesh) Truth { return above(m.get(debounceMax), 1) },
				Do: "Find who changes so much first: pilot_k8s_cfg_events and pilot_k8s_reg_events count changes" +
					" by kind."},
			{If: func(m *mesh) Truth { return atMost(m.get(debounceMax), 1) },
				Do: "Find who changes so much: pilot_k8s_cfg_events and pilot_k8s_reg_events count changes by kind." +
					" PILOT_DEBOUNCE_MAX is short already."},
		},
		Effect: Effect{Of: total,
			From: "arithmetic: a wait of PILOT_DEBOUNCE_MAX at most, and pushes that take half to twice as long",
			Between: func(m *mesh) (low, high float64) {
				sent, context := m.get(queueAndPush), m.get(pushContext)
				longest := choose(above(m.get(debounceMax), 1), 1, m.get(debounceAfter))
				return 0.5*sent + context + 0.1, 2*(sent+context) + longest + m.get(debounceAfter)
			}},
		Sources: []string{inAction, "study control-plane-levers (debounce_max)"},
		Risk:    "More rounds of pushes while changes come.",
		Back:    formerVariable,
	},
	{
		Code:  "debounce_short",
		Title: "istiod pushes for nearly every change",
		Condition: "a replica makes 2 rounds of pushes a second or more with fewer than 2 updates in each," +
			" PILOT_DEBOUNCE_AFTER is below 0.1 s or endpoints are not debounced, and this costs 10% of the CPU or" +
			" 0.1 s a push",
		Says: say("istiod pushes %s rounds, with %s updates in each, and uses %s of its CPU.", rounds,
			updatesPerRound, cpuShare),
		When: func(m *mesh) Truth {
			return all(atLeast(m.get(rounds), 2), below(m.get(updatesPerRound), 2),
				either(below(m.get(debounceAfter), 0.1), m.leverIs(controlplane.FactorEDSDebounce, "false")),
				either(atLeast(m.get(cpuShare), 0.1), atLeast(m.get(queueAndPush), 0.1)))
		},
		// If a round takes longer than the time to the next, proxies get several rounds in one
		// turn.
		Supports: []Clause{{Text: "each round goes to most of the proxies, if it is over before the next begins",
			When: func(m *mesh) Truth {
				return either(atLeast(m.get(turnsPerRound)*m.get(replicas), 0.5*m.get(proxies)),
					atLeast(m.get(rounds)*m.get(queueAndPush), 1))
			}}},
		Shows: []*Quantity{rounds, updates, updatesPerRound, debounceAfter, cpuShare, queueAndPush, turns},
		Share: valueOf(cpuShare),
		Try: []Try{
			{Lever: controlplane.FactorEDSDebounce, Level: "true",
				If: func(m *mesh) Truth { return m.leverIs(controlplane.FactorEDSDebounce, "false") }},
			{Lever: study.FactorDebounceAfter, Level: "100ms",
				If: func(m *mesh) Truth { return below(m.get(debounceAfter), 0.1) },
				Do: "Where changes come more often than that and never pause, set PILOT_DEBOUNCE_MAX to 1s too."},
		},
		Effect: Effect{Of: rounds, From: "arithmetic: a round in each 100 ms at most, and one in 20 s where changes" +
			" never pause",
			Between: func(m *mesh) (low, high float64) { return 0.05, min(10, 0.9*m.get(rounds)) }},
		Sources: []string{inAction + ": bursts with short resources want a longer debounce",
			"study control-plane-levers (eds_debounce)"},
		Risk: "Each change arrives later, by as long as istiod waits: up to PILOT_DEBOUNCE_MAX where changes" +
			" never pause.",
		Back: formerVariable,
	},
	{
		Code:  "throttle",
		Title: "Too few proxies are pushed to concurrently",
		Condition: "proxies wait 30 ms or more and twice as long as their turn takes, a round goes to twice as many" +
			" proxies as there are slots, and the concurrent turns cannot use the CPU",
		Says: say("A proxy waits %s for its turn, which takes %s; %s proxies are pushed to concurrently, while"+
			" istiod uses %s of its CPU.", queue, push, concurrentTurns, cpuWhilePushing),
		When: func(m *mesh) Truth {
			wait := m.get(queue)
			return all(atLeast(wait, 0.03), atLeast(wait, 2*m.get(push)),
				atLeast(m.get(turnsPerRound), 2*m.get(throttle)),
				either(atMost(m.get(concurrentTurns), 0.8*m.get(cpuAvailable)),
					all(below(m.get(pushing), 0.9), below(m.get(cpuWhilePushing), 0.5))))
		},
		Unless: []Clause{
			heldBack,
			{Text: "turns wait for locks: more concurrent turns would wait longer", When: func(m *mesh) Truth {
				return all(above(m.get(concurrentTurns), m.get(cpuAvailable)), atLeast(m.get(locksShare), 0.5))
			}},
			{Text: "turns wait for proxies that read slowly", When: func(m *mesh) Truth {
				return all(above(m.get(concurrentTurns), m.get(cpuAvailable)), readersBlock(m))
			}},
			{Text: "the whole machine is busy, and there are more concurrent turns than CPUs", Optional: true,
				When: func(m *mesh) Truth {
					return all(atLeast(m.get(MachineBusy), 0.97), above(m.get(concurrentTurns), m.get(cpuAvailable)))
				}},
		},
		Supports: []Clause{{Text: "there are about as many concurrent turns as PILOT_PUSH_THROTTLE allows",
			When: func(m *mesh) Truth { return atMost(m.get(concurrentTurns), 2*m.get(throttle)*m.get(replicas)) }}},
		Shows: []*Quantity{queue, push, send, concurrentTurns, throttle, turnsPerRound, cpuWhilePushing, cpuAvailable,
			locksShare, pushP99},
		Share: ofTotal(valueOf(queue)),
		Try: []Try{
			{Lever: controlplane.FactorPushThrottle, Level: study.LevelDefault,
				If: func(m *mesh) Truth { return below(m.get(throttle), 0.9*m.get(throttleDefault)) }},
			moreSlots("Raise it by 10 to 30% a step.",
				func(m *mesh) Truth { return atLeast(m.get(throttle), 0.9*m.get(throttleDefault)) }),
		},
		Effect: Effect{Of: queueAndPush,
			From: "rule of thumb, but for the lower bound: as many concurrent turns as there are slots then",
			Between: func(m *mesh) (low, high float64) {
				sent := m.get(queueAndPush)
				return sent * m.get(concurrentTurns) / (m.get(throttleDefault) * m.get(replicas)), 0.95 * sent
			}},
		Sources: []string{inAction + ": high latency with idle CPU wants more concurrent pushes",
			"istio/istio pilot/pkg/xds/discovery.go: a slot is held until the configuration is sent",
			"study control-plane-levers (push_throttle)"},
		Risk: "More memory and CPU at once; where turns wait for locks, latency rises.",
		Back: formerVariable,
	},
	{
		Code:  "locks",
		Title: "Pushes wait for locks, not for a turn",
		Condition: "a push takes 0.25 s or more, turns wait for locks half of their time or more, and there are more" +
			" than two concurrent turns a CPU",
		Says: say("A turn takes %s, %s of it waiting for locks, while istiod uses %s of its CPU with %s"+
			" concurrent turns.",
			push, locksShare, cpuWhilePushing, concurrentTurns),
		When: func(m *mesh) Truth {
			return all(atLeast(m.get(queueAndPush), 0.25), atLeast(m.get(locksShare), 0.5),
				above(m.get(concurrentTurns), 2*m.get(cpuAvailable)))
		},
		Unless: []Clause{
			heldBack,
			usedUp(0.8),
			{Text: "turns wait for proxies that read slowly", When: readersBlock},
			{Text: "the whole machine is busy, and who holds a lock waits for a CPU", Optional: true,
				When: func(m *mesh) Truth { return atLeast(m.get(MachineBusy), 0.9) }},
		},
		Shows: []*Quantity{push, queue, LocksWaiting, locksShare, concurrentTurns, cpuWhilePushing, cpuAvailable},
		Share: ofTotal(func(m *mesh) float64 { return m.get(locksShare) * m.get(push) }),
		Try: []Try{
			{Lever: controlplane.FactorPushThrottle, LevelOf: throttleLess,
				If: func(m *mesh) Truth { return above(m.get(throttle), m.get(throttleLess)) },
				Do: "Lower, not raise it: fewer turns contend for the lock. The mutex profile names it."},
			{Do: "Find the lock: meshtrial report shows the top functions of the mutex profile."},
		},
		Effect: Effect{Of: queueAndPush, From: "rule of thumb, but for the lower bound: nobody waits for a lock",
			Between: func(m *mesh) (low, high float64) {
				share, sent := m.get(locksShare), m.get(queueAndPush)
				return (1 - share) * sent, 0.95 * sent
			}},
		Sources: []string{
			"istio/istio: a lower PILOT_PUSH_THROTTLE cured 25 minutes of stale endpoints, whose cause was lock" +
				" contention",
			"study control-plane-levers (push_throttle), its mutex profile"},
		Risk: "If something else was the cause, proxies wait longer for their turn.",
		Back: formerVariable,
	},
	{
		Code:      "slow_readers",
		Title:     "Proxies that read slowly hold push slots",
		Condition: "sending takes half of a turn or more, and 50 ms or more",
		Says: say("Sending takes %s of a turn of %s; meanwhile the slot is held, and others wait %s.", send,
			push, queue),
		When:   func(m *mesh) Truth { return all(readersBlock(m), atLeast(m.get(send), 0.05)) },
		Unless: []Clause{heldBack, usedUp(0.9)},
		Shows:  []*Quantity{send, push, queue, concurrentTurns, throttle, pushP99, bytesPerTurn},
		Share:  ofTotal(func(m *mesh) float64 { return m.get(queue) + m.get(send) }),
		Try: []Try{
			{Do: "Find who reads slowly: sidecars that are throttled or starved of CPU" +
				" (container_cpu_cfs_throttled_periods_total of container istio-proxy), and nodes or networks that" +
				" are far away. Give them CPU, or less configuration."},
			scopeTo("What is smaller is read sooner."),
			moreSlots("Until then more slots let others pass, by 10 to 30% a step.", nil),
		},
		Effect: scaled(send, 0, 0.5),
		Sources: []string{"istio/istio pilot/pkg/xds/delta.go: a slot is held until Send has returned, which waits" +
			" once 64 KiB of a stream are not sent (grpc-go, defaultWriteQuota)",
			"study control-plane-levers with clients: slow-reader"},
		Risk: "More slots want more memory.",
		Back: formerVariable,
	},
	{
		Code:  "saturated_out",
		Title: "istiod's CPU is used up by what it pushes",
		Condition: "istiod uses 80% of its CPU (or 10%, but 90% while it pushes, and p99 is 1 s or more), half of it" +
			" or more for proxies' turns",
		Says: say("istiod uses %s of its CPU, %s of it for proxies' turns, %s for receiving changes and for push"+
			" contexts.",
			cpuShare, cpuOut, cpuIn),
		When: func(m *mesh) Truth {
			return all(
				either(atLeast(m.get(cpuShare), 0.8),
					all(atLeast(m.get(cpuShare), 0.1), atLeast(m.get(cpuWhilePushing), 0.9),
						atLeast(m.get(pushP99), 1))),
				atLeast(m.get(cpuOut), m.get(cpuIn)))
		},
		Unless: []Clause{heldBack},
		Shows: []*Quantity{cpu, cpuAvailable, cpuShare, cpuWhilePushing, cpuOut, cpuIn, turns, bytesPerTurn,
			pushP99},
		Share: valueOf(cpuShare),
		Try: []Try{
			scopeTo("First push less."),
			fewerRounds("Merge more changes into a round."),
			{Lever: controlplane.FactorIstiodReplicas, LevelOf: replicasNext,
				Do: "Then share the proxies: each replica receives all changes, and pushes to its own.",
				Effect: &Effect{Of: turnsPerRound, From: "arithmetic: n of n + 1, by 5% more or less",
					Between: func(m *mesh) (low, high float64) {
						now, part := m.get(turnsPerRound), m.get(replicas)/m.get(replicasNext)
						return 0.95 * now * part, now * min(1.05*part, 0.99)
					}}},
		},
		Effect: scaled(cpuShare, 0.05, 0.95),
		Sources: []string{inAction + ": saturated by outgoing changes, scale out",
			"study control-plane-tuning (sidecar_scope: 514 to 70 pushes as published)"},
		Risk: "A Sidecar resource hides hosts that it does not list; with REGISTRY_ONLY calls to them fail.",
		Back: "Delete the Sidecar; scale back.",
	},
	{
		Code:  "saturated_in",
		Title: "istiod's CPU is used up by the changes that it receives",
		Condition: "istiod uses 80% of its CPU, or push contexts take half of a replica's time, and most of the CPU" +
			" receives changes and computes push contexts",
		Says: say("istiod uses %s of its CPU; %s updates come. Receiving them and push contexts take %s, proxies'"+
			" turns %s.",
			cpuShare, updates, cpuIn, cpuOut),
		When: func(m *mesh) Truth {
			return all(either(atLeast(m.get(cpuShare), 0.8), atLeast(m.get(contexts)/m.get(replicas), 0.5)),
				above(m.get(cpuIn), m.get(cpuOut)))
		},
		Unless: []Clause{heldBack},
		Shows:  []*Quantity{cpu, cpuAvailable, cpuShare, cpuIn, cpuOut, updates, rounds, contexts, pushContext},
		Share:  valueOf(cpuShare),
		Try: []Try{
			{Lever: controlplane.FactorDiscoverySelectors, Level: "istio-discovery=enabled",
				If: func(m *mesh) Truth { return m.leverIs(controlplane.FactorDiscoverySelectors, study.LevelNone) },
				Do: "Label the namespaces that belong to the mesh first, and istio-system with them."},
			fewerRounds("Compute fewer push contexts."),
		},
		Effect:  scaled(contexts, 0, 0.9),
		Sources: []string{inAction + ": saturated by incoming changes, batch or scale up"},
		Risk:    "Services of namespaces that are left out are unknown to proxies.",
		Back:    "Take the selectors out again.",
	},
	{
		Code:  "no_effect",
		Title: "Pushes bring proxies nothing new",
		Condition: "half of the writes or more, and one in 10 s, change nothing that proxies need, and istiod makes" +
			" 1.2 times as many rounds of pushes as there are other writes",
		Says: say("istiod pushes %s rounds, for changes that change nothing that proxies need.", rounds),
		When: func(m *mesh) Truth {
			return all(atLeast(m.get(rounds), 0.1), atLeast(m.get(IdleWritesShare), 0.5),
				atLeast(m.get(IdleWrites), 0.1),
				atLeast(m.get(rounds), 1.2*m.get(UsefulWrites)))
		},
		Unless: []Clause{{Text: "istiod makes more rounds than all writes that were watched",
			When: func(m *mesh) Truth {
				return above(m.get(rounds), 1.5*(m.get(IdleWrites)+m.get(UsefulWrites)))
			}}},
		Supports: []Clause{{Text: "what is pushed is what proxies had",
			When: func(m *mesh) Truth { return atLeast(m.get(IdenticalShare), 0.5) }}},
		Shows: []*Quantity{IdenticalShare, IdleWritesShare, IdleWrites, UsefulWrites, rounds, updates, bytesPerTurn,
			turns},
		Share: valueOf(cpuShare),
		Try: []Try{{Do: "Stop the controller that writes without changing anything: the notes above name the busiest" +
			" where they were watched. Otherwise kubectl get services,endpointslices,virtualservices -A -o yaml" +
			" --show-managed-fields shows who wrote last (managedFields), and istiod's log names the object of each" +
			" push (Push debounce stable)."}},
		Effect: Effect{Of: rounds,
			From: "arithmetic: each write that changes something makes a round at most, and a tenth of the rounds" +
				" may have other reasons",
			Between: func(m *mesh) (low, high float64) { return 0, m.get(UsefulWrites) + 0.1*m.get(rounds) }},
		Sources: []string{"istio/istio pilot/pkg/model/config_compare.go: a write that changes metadata alone is" +
			" pushed where a label or annotation of the object has istio.io in its name, and where the object is" +
			" none of Istio's",
			"study control-plane-levers with change: no-op"},
		Risk: "None, as long as the controller loses nothing that it needs.",
		Back: "Let the controller write as before.",
	},
	{
		Code:      "no_scope",
		Title:     "Proxies hold configuration of the whole mesh",
		Condition: "a proxy holds 1 MB of configuration or more, and there is no Sidecar for the whole mesh",
		Says: say("A proxy holds %s of configuration, and no Sidecar for the whole mesh says what it needs.",
			ConfigBytes),
		When: func(m *mesh) Truth { return all(atLeast(m.get(ConfigBytes), 1e6), unscoped(m)) },
		Unless: []Clause{
			{Text: "Sidecars of their own namespaces hold for half of the proxies that were read", Optional: true,
				When: func(m *mesh) Truth { return atLeast(m.get(ScopedShare), 0.5) }},
			{Text: "most of its clusters are called", Optional: true,
				When: func(m *mesh) Truth { return below(m.get(UnusedShare), 0.5) }},
		},
		Shows: []*Quantity{ConfigBytes, bytesPerTurn, UnusedShare, ScopedShare, proxies, turns},
		Share: constant(0.3),
		Try: []Try{
			{Lever: controlplane.FactorSidecarScope, Level: controlplane.SidecarScopeMesh},
			{Lever: controlplane.FactorExportTo, Level: ".", Do: "Or the other way round: let Services say who may see them."},
		},
		Effect: Effect{Of: ConfigBytes,
			From: "rule of thumb, but for the lower bound where calls were counted: half of the share that is called",
			Between: func(m *mesh) (low, high float64) {
				held := m.get(ConfigBytes)
				return m.get(configLeast), 0.8 * held
			}},
		Sources: []string{inAction + ": config dump from 2.3 MB to 516 kB, pushes from 514 to 70",
			"studies control-plane-tuning, sidecar-scope"},
		Risk: "Hosts that no Sidecar lists are unknown to the proxies of its namespace, and what is exported to its" +
			" own namespace alone to gateways too.",
		Back: "Delete the Sidecar; take the fields of exportTo out again.",
	},
	{
		Code:      "unused_config",
		Title:     "Proxies hold configuration that nobody uses",
		Condition: "proxies have never called 80% of the clusters that they hold, 100 or more each",
		Says: say("A proxy has never called %s of the clusters that it holds, %s of all; it holds %s.",
			UnusedClusters, UnusedShare, ConfigBytes),
		When: func(m *mesh) Truth { return all(atLeast(m.get(UnusedShare), 0.8), atLeast(m.get(UnusedClusters), 100)) },
		Unless: []Clause{{Text: "no Sidecar for the whole mesh says what proxies need: see no_scope", Optional: true,
			When: func(m *mesh) Truth {
				return all(atLeast(m.get(ConfigBytes), 1e6), unscoped(m), below(m.get(ScopedShare), 0.5))
			}}},
		Shows: []*Quantity{UnusedShare, UnusedClusters, ConfigBytes, DNSClusters, proxies},
		Share: constant(0.3),
		Try: []Try{
			{Do: "meshtrial assess config --lab cluster names what was never called, and who owns it: delete what" +
				" nobody needs, and set exportTo on what few do. meshtrial assess config --lab cluster --generate DIR makes" +
				" Sidecars of who calls whom."},
			scope,
		},
		Effect: scaled(UnusedClusters, 0, 0.5),
		Sources: []string{inAction + ": 600 objects that nobody uses",
			"studies control-plane-tuning, sidecar-scope"},
		Risk: "What was not called since a proxy started may be called tomorrow: look at a week.",
		Back: "Apply the deleted objects again.",
	},
	{
		Code:      "memory_limit",
		Title:     "istiod is about to reach its memory limit",
		Condition: "the fullest replica uses 90% of its memory limit or more",
		Says: say("The fullest of %s replicas of istiod holds %s, of a limit of %s.",
			replicas, memoryFullest, memoryLimit),
		When: func(m *mesh) Truth {
			return all(not(m.leverIs(controlplane.FactorIstiodMemory, study.LevelNone)), atLeast(m.get(memoryShare), 0.9))
		},
		Shows: []*Quantity{memoryShare, memoryFullest, memoryLimit, replicas, proxies},
		Share: constant(0.9),
		Try:   []Try{{Lever: controlplane.FactorIstiodMemory, LevelOf: memoryNext}, scope},
		Effect: Effect{Of: memoryShare,
			From: "arithmetic: the same memory, or 15% less, of a limit half as high again; Go's collector may let" +
				" the heap fill nearly all of it (GOMEMLIMIT)",
			Between: func(m *mesh) (low, high float64) {
				share := m.get(memoryShare)
				return 0.85 * share * m.get(memoryLimit) / m.get(memoryNext), 0.95 * share
			}},
		Sources: []string{"Istio: 1.5 GB for 1,000 services and 2,000 sidecars", "study one-istiod"},
		Risk:    "Other pods of the node have that much less memory.",
		Back:    formerLimit,
	},
	{
		Code:  "unbalanced",
		Title: "One replica of istiod has most of the connections",
		Condition: "of 2 replicas or more with 50 proxies or more, the busiest has 1.5 times the mean's proxies, and" +
			" more than chance gives it",
		Says: say("The busiest of %s replicas has %s of the mean's proxies; chance alone makes it %s at most.",
			replicas, busiestReplica, busiestByChance),
		When: func(m *mesh) Truth {
			return all(atLeast(m.get(replicas), 2), atLeast(m.get(proxies), 50), atLeast(m.get(busiestReplica), 1.5),
				above(m.get(busiestReplica), m.get(busiestByChance)))
		},
		Shows: []*Quantity{busiestReplica, busiestByChance, replicas, proxies, cpuShare},
		Share: constant(0.5),
		Try: []Try{
			{Do: "Connections stay where they are until they end: every 30 minutes as Istio's charts install it," +
				" never by istiod's own default. Restart the replicas that have most, one by one, once new ones are" +
				" ready: kubectl -n istio-system delete pod NAME."},
			{Lever: controlplane.FactorConnectionAge, Level: "10m", Do: "They spread sooner then.", If: func(m *mesh) Truth {
				return either(m.leverIs(controlplane.FactorConnectionAge, study.LevelNone), above(m.get(connectionAge), 600))
			}},
		},
		Effect: Effect{Of: busiestReplica, From: "arithmetic: what chance makes of new connections",
			Between: func(m *mesh) (low, high float64) { return 1, m.get(busiestByChance) }},
		Sources: []string{
			"istio/istio pkg/keepalive: connections live for ever unless keepaliveMaxServerConnectionAge says" +
				" otherwise",
			"Istio's chart istiod: keepaliveMaxServerConnectionAge is 30m"},
		Risk: "Each new connection gets its whole configuration once more.",
		Back: "Put keepaliveMaxServerConnectionAge back to what it was.",
	},
	{
		Code:      "reconnects",
		Title:     "Proxies keep reconnecting",
		Condition: "half of the proxies reconnect each minute, one in 2 s or more",
		Says:      say("%s of %s proxies reconnect; each gets its whole configuration.", Connects, proxies),
		When: func(m *mesh) Truth {
			return all(atLeast(m.get(Connects), 0.5), atLeast(m.get(Connects)*60, 0.5*m.get(proxies)))
		},
		Unless: []Clause{{Text: "replicas of istiod started a moment ago, and proxies connected to them",
			When: func(m *mesh) Truth { return above(m.get(Restarts), 0) }}},
		Shows: []*Quantity{Connects, proxies, cpuShare, bytesPerTurn},
		Share: constant(0.6),
		Try: []Try{
			{Do: `Find out why streams end: istiod's log says "ADS: ... terminated" with the reason; look at` +
				" restarts of" +
				" sidecars, at proxies that a liveness probe kills, and at load balancers with idle timeouts" +
				" before istiod."},
			{Lever: controlplane.FactorRequestLimit, Level: "25",
				If: func(m *mesh) Truth { return above(m.get(requestLimit), 25) },
				Do: "So that connecting proxies do not take the CPU from those that are connected."},
		},
		Effect: scaled(Connects, 0, 0.5),
		Sources: []string{"study control-plane-levers with clients: reconnect-storm",
			"istio/istio pilot/pkg/features/tuning.go: PILOT_MAX_REQUESTS_PER_SECOND"},
		Risk: "Proxies wait longer until they may connect.",
		Back: "Take the variable out.",
	},
	{
		Code:      "rejected",
		Title:     "Proxies reject what istiod sends",
		Condition: "proxies reject configuration",
		Says: say("Proxies rejected %s configurations; until the cause is gone they run on the last one that"+
			" they took.", rejects),
		When:  func(m *mesh) Truth { return either(above(m.get(rejects), 0), above(m.get(rejectedBefore), 0)) },
		Shows: []*Quantity{rejects, proxies},
		Share: constant(0.9),
		Try: []Try{{Do: `Find what is rejected: istioctl proxy-status shows who is stale, istiod's log has` +
			` "ACK ERROR" with` +
			" the reason; usually an EnvoyFilter."}},
		Effect:  scaled(rejects, 0, 0.1),
		Sources: []string{inAction + ": errors (pilot_total_xds_rejects)"},
		Risk:    "None.",
		Back:    "Nothing to revert.",
	},
	{
		Code:      "workers",
		Title:     "A sidecar has too few worker threads",
		Condition: "all worker threads of a sidecar are busy",
		Says:      say("All worker threads of a sidecar are busy (the busiest %s of the time).", WorkerBusiest),
		When:      func(m *mesh) Truth { return m.limitedBy(record.LimitConcurrency) },
		Shows:     []*Quantity{WorkerBusiest, WorkerThreads},
		Share:     valueOf(WorkerBusiest),
		Try: []Try{{Do: "Double the number of worker threads of these workloads.",
			YAML: func(m *mesh) string {
				return fmt.Sprintf("# annotation of the pods"+
					" (template.metadata.annotations)\nproxy.istio.io/config: |\n"+
					"  concurrency: %s\n", m.level(workerThreadsNext, ""))
			}}},
		Effect: scaled(WorkerBusiest, 0.2, 0.95),
		Sources: []string{"an Istio 1.8 proxy at two threads of 55 to 60%: concurrency from 2 to 4",
			"studies sidecar-cpu and proxy-settings"},
		Risk: "More memory and connections for each proxy; connections spread unevenly over more threads.",
		Back: "Take the annotation out, and restart the pods.",
	},
	{
		Code:      "proxy_cpu",
		Title:     "A sidecar's CPU limit holds it back",
		Condition: "the CPU limit of a sidecar is used up",
		Says:      say("A sidecar used its CPU limit up in %s of the periods.", ProxyThrottled),
		When:      func(m *mesh) Truth { return m.limitedBy(record.LimitCPU) },
		Shows:     []*Quantity{ProxyThrottled, ProxyCPULimit, WorkerBusiest},
		Share:     constant(0.9),
		Try: []Try{{Do: "Double the CPU limit of these sidecars.", YAML: func(m *mesh) string {
			return fmt.Sprintf("# annotations of the pods (template.metadata.annotations); with them, memory is set"+
				" by annotations alone too\nsidecar.istio.io/proxyCPU: %s\nsidecar.istio.io/proxyCPULimit: %s\n",
				m.level(ProxyCPULimit, ""), m.level(proxyCPULimitNext, ""))
		}}},
		Effect:  scaled(ProxyThrottled, 0, 0.5),
		Sources: []string{"study proxy-settings"},
		Risk:    "The sidecar takes CPU that the workload used.",
		Back:    "Take the annotations out, and restart the pods.",
	},
	{
		// A few such clusters may come from the proxy's own bootstrap, such as a trace collector.
		Code:  "dns_clusters",
		Title: "Proxies resolve many names themselves",
		Condition: "a proxy resolves 50 clusters by DNS itself, or 10 while all proxies resolve 100 names a second" +
			" (round numbers, not measured costs)",
		Says: say("A proxy has up to %s clusters that it resolves by DNS itself; %s proxies ask resolvers for %s"+
			" names at least. Advice begins at 50 clusters of a proxy, and at 100 names a second: round numbers, not"+
			" measured costs.",
			DNSClusters, proxies, dnsQuestions),
		When: func(m *mesh) Truth {
			return either(atLeast(m.get(DNSClusters), 50),
				all(atLeast(m.get(DNSClusters), 10), atLeast(m.get(dnsQuestions), 100)))
		},
		Shows: []*Quantity{DNSClusters, DNSClustersMean, dnsQuestions, ConfigBytes, proxies},
		Share: constant(0.4),
		Try: []Try{
			{Do: "Merge ServiceEntries of the same host, give those with fixed addresses resolution STATIC, and" +
				" those that are only passed on NONE; scope the rest with exportTo or a Sidecar."},
			scope,
			{Do: "Where the resolvers are what is short: a cache on each node (NodeLocal DNSCache), and a longer TTL" +
				" of the names. The metric coredns_dns_requests_total shows what they answer, before and after."},
		},
		Effect: scaled(DNSClusters, 0, 0.5),
		Sources: []string{
			"1,000 ServiceEntries of one host: config dump from 880 to 196 kB with a Sidecar (study sidecar-scope)",
			"a pod without a resolver kept 1,000 such clusters warming for 44 s",
			"istio/istio pilot/pkg/networking/core/cluster_builder.go: every such cluster has respect_dns_ttl, and" +
				" dnsRefreshRate for names that fail; each proxy resolves each of its clusters, one for each port," +
				" by itself"},
		Risk: "A host that is left out is reached only as its outbound policy allows.",
		Back: "Apply the former ServiceEntries.",
	},
	{
		Code:  "headless",
		Title: "A headless Service makes a listener of each of its endpoints",
		Condition: "a proxy holds 50 listeners or more for single endpoints of headless Services, and they are 30%" +
			" of its configuration, or half of the turns, one a second or more, bring listeners because these" +
			" endpoints change",
		Says: say("A proxy holds %s listeners for single endpoints of headless Services, %s of its configuration;"+
			" each change of these endpoints is a push of listeners to all proxies that know the Service (%s of"+
			" %s turns).",
			HeadlessListeners, HeadlessShare, headlessTurns, turns),
		When: func(m *mesh) Truth {
			return all(atLeast(m.get(HeadlessListeners), 50),
				either(atLeast(m.get(HeadlessShare), 0.3),
					all(atLeast(m.get(headlessTurns), 1), atLeast(m.get(headlessTurns), 0.5*m.get(turns)))))
		},
		Shows: []*Quantity{HeadlessListeners, HeadlessShare, headlessTurns, headlessTriggers, turns, ConfigBytes,
			proxies},
		Share: constant(0.5),
		Try: []Try{
			{Do: "Name the protocol of all its ports where it is HTTP or gRPC (appProtocol, or a name such as" +
				" http-web): HTTP ports share one listener, and their endpoints change without new listeners. A" +
				" Service that nobody calls pod by pod needs no clusterIP: None."},
			{Do: "Show the Service only to namespaces that call it: annotation networking.istio.io/exportTo.",
				YAML: func(*mesh) string {
					return "# annotation of the Service (metadata.annotations): its own namespace, and others after" +
						" commas\n" +
						"networking.istio.io/exportTo: .\n"
				}},
			scope,
			{Do: "Let istiod make one listener for each TCP port, with a filter chain for each endpoint. Most of the" +
				" bytes stay.", Needs: []string{"PILOT_ENABLE_HEADLESS_FILTER_CHAIN_LISTENER"},
				YAML: func(*mesh) string {
					return "# environment of istiod\nPILOT_ENABLE_HEADLESS_FILTER_CHAIN_LISTENER: 'true'\n"
				}},
		},
		Effect: scaled(HeadlessListeners, 0, 0.5),
		Sources: []string{
			"istio/istio pilot/pkg/networking/core/listener.go: a listener for each endpoint of a headless Service's" +
				" port that is TCP or names no protocol",
			"istio/istio pilot/pkg/serviceregistry/kube/controller/endpointslice.go: a change of its endpoints is a" +
				" push of listeners, unless all ports are HTTP"},
		Risk: "A port that is called HTTP and carries something else fails; namespaces to which the Service is not" +
			" exported reach it only as their outbound policy allows.",
		Back: "Apply the former Service; take the variable out.",
	},
	{
		Code:      "access_log",
		Title:     "The access log costs a good part of a sidecar's CPU",
		Condition: "the access log takes 10% or more of a sidecar's CPU time for a request",
		Says:      say("The access log takes %s of a sidecar's CPU time for a request.", AccessLogShare),
		When:      func(m *mesh) Truth { return atLeast(m.get(AccessLogShare), 0.1) },
		Shows:     []*Quantity{AccessLogShare},
		Share:     valueOf(AccessLogShare),
		Try: []Try{{Do: "Log errors only, by a Telemetry resource with a filter.",
			YAML: func(m *mesh) string {
				return "# kubectl apply -f FILE\napiVersion: telemetry.istio.io/v1\nkind: Telemetry\n" +
					"metadata: {name: access-log-errors, namespace: " + m.evidence.root() + "}\n" +
					"spec:\n  accessLogging:\n  - filter: {expression: 'response.code >= 400'}\n"
			},
			Back: func(m *mesh) string {
				return "kubectl -n " + m.evidence.root() +
					" delete telemetry access-log-errors"
			}}},
		Effect:  scaled(AccessLogShare, 0, 0.5),
		Sources: []string{"study filter-bill (access_log)"},
		Risk:    "Requests that succeed leave no line.",
		Back:    "Delete the Telemetry resource.",
	},
	{
		Code:      "costly_filter",
		Title:     "An extension costs a good part of a sidecar's CPU",
		Condition: "an extension takes 20% or more of a sidecar's CPU time for a request",
		Says:      say("The most expensive extension takes %s of a sidecar's CPU time for a request.", FilterShare),
		When:      func(m *mesh) Truth { return atLeast(m.get(FilterShare), 0.2) },
		Shows:     []*Quantity{FilterShare},
		Share:     valueOf(FilterShare),
		Try: []Try{{Do: "Replace it by a native filter where there is one, narrow its workloadSelector to those that" +
			" need it, or move it to a gateway or waypoint."}},
		Effect: scaled(FilterShare, 0, 0.5),
		Sources: []string{"Istio 1.8: a Wasm stats filter took 14% of the CPU; the native one saved 8% and 1 ms",
			"studies filter-bill and sidecar-cpu"},
		Risk: "What the extension did is done otherwise, or not at all.",
		Back: "Apply the former EnvoyFilter.",
	},
}
