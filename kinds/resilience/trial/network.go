package trial

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/fault/node"
	"github.com/meshtrial/meshtrial/internal/wake"
)

func (r *performer) Network(a *fault.Network) error { return r.prepared(r.network(r.ctx, a)) }

// network disturbs packets on arrival at their destination pods, where they still have their
// senders' addresses.
func (h *executor) network(ctx context.Context, n *fault.Network) (*execution, error) {
	to, err := h.choose(n.To, n.Pick)
	if err != nil {
		return nil, err
	}
	from := h.census.living(n.From)
	if len(from) == 0 {
		return nil, fmt.Errorf("%s has no pods", n.From)
	}
	var peers []string
	if n.From != fault.LoadService { // clients receive no calls
		service, err := h.Kube.CoreV1().Services(h.Namespace).Get(ctx, n.From, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("addresses of Service %s: %w", n.From, err)
		}
		peers = slices.DeleteFunc(service.Spec.ClusterIPs, func(ip string) bool { return ip == corev1.ClusterIPNone })
	}
	for _, r := range from {
		peers = append(peers, r.IP)
	}
	return h.disturb(ctx, fmt.Sprintf("packets from %s to %s", n.From, namesOf(podsOf(to))), to,
		node.NetworkRequest{Peers: peers, Direction: node.In, Cut: n.Cut, Lose: n.Lose, DelayNS: int64(n.Delay), RateBits: n.Rate})
}

// disturb disturbs packets between pods and peers.
func (h *executor) disturb(ctx context.Context, target string, pods []*resident, request node.NetworkRequest) (*execution, error) {
	all := make([]victim, len(pods))
	for i, pod := range podsOf(pods) {
		client, err := h.faults.At(pod.Node)
		if err == nil {
			err = client.Prepare(ctx, pod.UID) // connect and find the pod ahead of time
		}
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		all[i] = victim{pod: pod, client: client}
	}
	return &execution{
		target: target,
		begin: func(ctx context.Context) error {
			return each(all, func(v *victim) error {
				own := request
				own.PodUID, own.LeaseMS = v.pod.UID, faultLease.Milliseconds()
				own.Peers = slices.DeleteFunc(slices.Clone(request.Peers), func(ip string) bool { return ip == v.pod.Address || ip == "" })
				f, err := v.client.Network(ctx, own)
				return v.keeps(ctx, f, err)
			})
		},
		prove: func(ctx context.Context) (string, error) { return provePackets(ctx, all) },
		end:   func(ctx context.Context) error { return undoAll(ctx, all) },
	}, nil
}

// provePackets waits until the faults have affected packets. A pod that receives no packets proves
// nothing.
func provePackets(ctx context.Context, all []victim) (string, error) {
	for {
		var sum node.Packets
		pods := 0
		for _, v := range all {
			f, err := v.client.Fault(ctx, v.fault.ID)
			if err != nil {
				return "", fmt.Errorf("pod %s: %w", v.pod.Name, err)
			}
			if f.Packets == nil {
				return "", fmt.Errorf("pod %s: the fault counts no packets", v.pod.Name)
			}
			if f.Packets.Dropped+f.Packets.Delayed > 0 {
				pods++
			}
			sum.Matched += f.Packets.Matched
			sum.Dropped += f.Packets.Dropped
			sum.Delayed += f.Packets.Delayed
		}
		if pods > 0 {
			return fmt.Sprintf("of %d packets %d were dropped and %d held, at %d of %d pods", sum.Matched, sum.Dropped, sum.Delayed, pods, len(all)), nil
		}
		if err := wake.Pause(ctx, lookAgain); err != nil {
			return "", fmt.Errorf("of %d packets none was touched: %w", sum.Matched, err)
		}
	}
}
