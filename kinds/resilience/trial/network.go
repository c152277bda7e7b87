package trial

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/fault/drive"
	"github.com/meshtrial/meshtrial/drive/fault/node"
)

func (r *ready) Network(a *fault.Network) error { return r.holds(r.node.network(r.ctx, a)) }

// network disturbs packets on arrival at their destination pods, where they still have their
// senders' addresses.
func (h *nodeExecutor) network(ctx context.Context, n *fault.Network) (drive.Execution, error) {
	to, err := h.choose(n.To, n.Pick)
	if err != nil {
		return nil, err
	}
	from := h.pods(n.From)
	if len(from) == 0 {
		return nil, fmt.Errorf("%s has no pods", n.From)
	}
	peers, err := h.addresses(ctx, n.From)
	if err != nil {
		return nil, err
	}
	for _, pod := range from {
		peers = append(peers, pod.IP)
	}
	all := make([]victim, len(to))
	requests := make([]node.NetworkRequest, len(to))
	for i, pod := range to {
		client, err := h.roles.At(pod.node)
		if err != nil {
			return nil, err
		}
		all[i] = victim{pod: pod, client: client}
		requests[i] = node.NetworkRequest{
			PodUID: pod.UID, Direction: node.In, Cut: n.Cut, Lose: n.Lose, DelayNS: int64(n.Delay), RateBits: n.Rate, LeaseMS: faultLease.Milliseconds(),
			Peers: slices.DeleteFunc(slices.Clone(peers), func(ip string) bool { return ip == pod.IP || ip == "" }),
		}
		// Connect and find the pod ahead of time.
		if err := client.Prepare(ctx, pod.UID); err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.name, err)
		}
	}
	var mu sync.Mutex
	var begun []standingFault
	return &execution{
		target: fmt.Sprintf("packets from %s to %s", n.From, namesOf(to)),
		begin: func(ctx context.Context) error {
			return each(ctx, all, func(ctx context.Context, i int, v victim) error {
				f, err := v.client.Network(ctx, requests[i])
				if err == nil {
					mu.Lock()
					begun = append(begun, keep(ctx, v.client, v.pod, f))
					mu.Unlock()
				}
				return err
			})
		},
		prove: func(ctx context.Context) (string, error) { return provePackets(ctx, begun) },
		end:   func(ctx context.Context) error { return undoFaults(ctx, begun) },
	}, nil
}

// provePackets waits until the faults have affected packets. A pod that receives no packets proves
// nothing.
func provePackets(ctx context.Context, begun []standingFault) (string, error) {
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		var sum node.Packets
		pods := 0
		for _, one := range begun {
			f, err := one.client.Fault(ctx, one.fault.ID)
			if err != nil {
				return "", fmt.Errorf("pod %s: %w", one.pod.name, err)
			}
			if f.Packets == nil {
				return "", fmt.Errorf("pod %s: the fault counts no packets", one.pod.name)
			}
			if f.Packets.Dropped+f.Packets.Delayed > 0 {
				pods++
			}
			sum.Matched += f.Packets.Matched
			sum.Dropped += f.Packets.Dropped
			sum.Delayed += f.Packets.Delayed
		}
		if pods > 0 {
			return fmt.Sprintf("of %d packets %d were dropped and %d held, at %d of %d pods", sum.Matched, sum.Dropped, sum.Delayed, pods, len(begun)), nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("of %d packets none was touched: %w", sum.Matched, ctx.Err())
		case <-ticker.C:
		}
	}
}
