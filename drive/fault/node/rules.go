package node

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"golang.org/x/sys/unix"
)

// rules is a table in a namespace that acts on packets between the namespace and peers:
//
//	table ip meshtrial-1-2-3 {
//	    set peers { type ipv4_addr; elements = { 10.0.0.7 } }
//	    chain in  { type filter hook prerouting priority -310; ip saddr @peers counter drop }
//	    chain out { type filter hook postrouting priority -310; ip daddr @peers counter drop }
//	}
//
// Packets are matched as on the wire: inbound ones before a sidecar's rules redirect them,
// outbound ones after. Packets over the loopback, such as probes rewritten by the agent and
// port-forwards, have no peer's address. A table is created and removed in one transaction.
type rules struct {
	ns       *namespace
	name     string
	families []nftables.TableFamily
	chains   []string // of each family
}

// act is what happens to a packet: exactly one of drop, lose and queued.
type act struct {
	drop   bool
	lose   float64
	queued bool
	queue  uint16 // to that netfilter queue; without a listener the packet passes
}

// priority is before connection tracking (-200) and before the tables "raw"
// of others (-300).
var priority = nftables.ChainPriorityRef(-310)

// numgenModulus is the resolution of a share of packets.
const numgenModulus = 1 << 30

func (n *namespace) nft() (*nftables.Conn, error) {
	return nftables.New(nftables.WithNetNSFd(int(n.Fd())))
}

// install creates the table.
func install(ns *namespace, name string, peers []netip.Addr, direction string, a act) (*rules, error) {
	var failed error
	all := forms(a)
	// Do not retry an expression that the kernel has rejected: the kernel would search for a
	// module, which takes 10 ms.
	first := 0
	if a.queued {
		first = int(queueForm.Load())
	}
	for i, form := range all[first:] {
		r := &rules{ns: ns, name: name, chains: []string{direction}}
		if direction == Both {
			r.chains = []string{In, Out}
		}
		if failed = r.make(peers, form); failed == nil {
			if a.queued {
				queueForm.Store(int32(first + i))
			}
			return r, nil
		}
	}
	return nil, fmt.Errorf("packet filter rules: %w", failed)
}

// queueForm is the first form of a queue that this kernel accepted.
var queueForm atomic.Int32

// forms returns the encodings of an act, the best first. A kernel may have queues as an
// expression of nf_tables, only as a target of iptables, or not at all.
func forms(a act) [][]expr.Any {
	counter := &expr.Counter{}
	drop := &expr.Verdict{Kind: expr.VerdictDrop}
	switch {
	case a.drop:
		return [][]expr.Any{{counter, drop}}
	case a.queued:
		// struct xt_NFQ_info_v3 of linux/netfilter/xt_NFQUEUE.h: number,
		// total, flags (NFQ_FLAG_BYPASS), padded to 8 bytes.
		info := make([]byte, 0, 8)
		for _, field := range []uint16{a.queue, 1, 1, 0} {
			info = append(info, binaryutil.NativeEndian.PutUint16(field)...)
		}
		unknown := xt.Unknown(info)
		return [][]expr.Any{
			{counter, &expr.Queue{Num: a.queue, Total: 1, Flag: expr.QueueFlagBypass}},
			{counter, &expr.Target{Name: "NFQUEUE", Rev: 3, Info: &unknown}},
		}
	default:
		return [][]expr.Any{{
			&expr.Numgen{Register: 1, Type: unix.NFT_NG_RANDOM, Modulus: numgenModulus},
			// The number has the host's byte order, comparisons go byte by byte.
			&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4},
			&expr.Cmp{Op: expr.CmpOpLt, Register: 1, Data: binaryutil.BigEndian.PutUint32(uint32(a.lose * numgenModulus))},
			counter, drop,
		}}
	}
}

// make sends the whole table as one transaction.
func (r *rules) make(peers []netip.Addr, form []expr.Any) error {
	conn, err := r.ns.nft()
	if err != nil {
		return err
	}
	var v4, v6 []nftables.SetElement
	for _, peer := range peers {
		if peer = peer.Unmap(); peer.Is4() {
			v4 = append(v4, nftables.SetElement{Key: peer.AsSlice()})
		} else {
			v6 = append(v6, nftables.SetElement{Key: peer.AsSlice()})
		}
	}
	for _, f := range []struct {
		family                  nftables.TableFamily
		peers                   []nftables.SetElement
		kind                    nftables.SetDatatype
		source, destination, of uint32
	}{ // offsets and length of the addresses in the header
		{nftables.TableFamilyIPv4, v4, nftables.TypeIPAddr, 12, 16, 4},
		{nftables.TableFamilyIPv6, v6, nftables.TypeIP6Addr, 8, 24, 16},
	} {
		if len(f.peers) == 0 {
			continue
		}
		r.families = append(r.families, f.family)
		table := conn.CreateTable(&nftables.Table{Name: r.name, Family: f.family})
		set := &nftables.Set{Table: table, Name: "peers", KeyType: f.kind}
		if err := conn.AddSet(set, f.peers); err != nil {
			return err
		}
		add := func(name string, hook *nftables.ChainHook, offset uint32) {
			chain := conn.AddChain(&nftables.Chain{Name: name, Table: table, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: priority})
			match := []expr.Any{
				&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: f.of},
				&expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID},
			}
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(match, &expr.Counter{})})
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(match[:2:2], form...)})
		}
		if slices.Contains(r.chains, In) {
			add(In, nftables.ChainHookPrerouting, f.source)
		}
		if slices.Contains(r.chains, Out) {
			add(Out, nftables.ChainHookPostrouting, f.destination)
		}
	}
	return conn.Flush()
}

// counters returns how many packets passed between namespace and peers, and on how many
// of these the rules acted.
func (r *rules) counters() (matched, done int64, err error) {
	conn, err := r.ns.nft()
	if err != nil {
		return 0, 0, err
	}
	for _, family := range r.families {
		table := &nftables.Table{Name: r.name, Family: family}
		for _, name := range r.chains {
			found, err := conn.GetRules(table, &nftables.Chain{Name: name, Table: table})
			if err != nil {
				return 0, 0, fmt.Errorf("packet counters: %w", err)
			}
			for i, rule := range found {
				for _, e := range rule.Exprs {
					counter, ok := e.(*expr.Counter)
					switch {
					case ok && i == 0:
						matched += int64(counter.Packets)
					case ok:
						done += int64(counter.Packets)
					}
				}
			}
		}
	}
	return matched, done, nil
}

// idle removes the rules, so that packets pass again. The hooks stay: when one is removed,
// the kernel drops the packets in all queues of the namespace.
func (r *rules) idle() error {
	conn, err := r.ns.nft()
	if err != nil {
		return err
	}
	for _, family := range r.families {
		conn.FlushTable(&nftables.Table{Name: r.name, Family: family})
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("remove packet filter rules: %w", err)
	}
	return nil
}

// remove removes the table.
func (r *rules) remove() error { return removeTable(r.ns, r.name) }

// addMark creates an empty table in a namespace.
func addMark(ns *namespace, name string) error {
	conn, err := ns.nft()
	if err != nil {
		return err
	}
	conn.CreateTable(&nftables.Table{Name: name, Family: nftables.TableFamilyIPv4})
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("mark in the pod's network namespace: %w", err)
	}
	return nil
}

// removeTable removes the tables of a name, of all families. A missing one is no error.
func removeTable(ns *namespace, name string) error {
	conn, err := ns.nft()
	if err != nil {
		return err
	}
	all, err := conn.ListTables()
	if err != nil {
		return fmt.Errorf("list packet filter tables: %w", err)
	}
	found := false
	for _, table := range all {
		if table.Name == name {
			conn.DelTable(table)
			found = true
		}
	}
	if !found {
		return nil
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("remove packet filter table %s: %w", name, err)
	}
	return nil
}

// marks lists our tables in a namespace, of any server.
func marks(ns *namespace) ([]mark, error) {
	conn, err := ns.nft()
	if err != nil {
		return nil, err
	}
	all, err := conn.ListTables()
	if err != nil {
		return nil, fmt.Errorf("list packet filter tables: %w", err)
	}
	var out []mark
	for _, table := range all {
		if strings.HasPrefix(table.Name, prefix) {
			if m, ok := parseMark(table.Name); ok {
				out = append(out, m)
			}
		}
	}
	return out, nil
}
