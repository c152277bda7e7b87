package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/wake"
)

// Addresses of the trial's two ends, both of one loopback interface (RFC 5737,
// for documentation).
var trialFrom, trialTo = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")

const (
	// trialPort receives; one below 1024 would need another capability.
	trialPort = 47007
	// trialPatience is how long the receiver waits for one more packet.
	trialPatience = 100 * time.Millisecond
	// trialDelay is the delay tried, and delayError the permitted error of its
	// median.
	trialDelay = 20 * time.Millisecond
	delayError = time.Millisecond
	// trialRate and rateError likewise.
	trialRate = 2_000_000
	rateError = 0.1
	// trialTurns is how often a trial is repeated, trialRest the pause between:
	// a busy machine is not the kernel's fault.
	trialTurns = 20
	trialRest  = 250 * time.Millisecond
)

// offers tries this node's abilities.
func (s *Server) offers(ctx context.Context) []Offer {
	out := []Offer{s.offerProcess(), s.offerMemory()}
	for _, t := range []struct {
		what    string
		request NetworkRequest
		packets int
		bytes   int
		gap     time.Duration
		judge   func([]arrival, Packets, int) (string, error)
	}{
		{fault.NeedCut, NetworkRequest{Cut: true}, 50, 100, 0, judgeCut},
		{fault.NeedLose, NetworkRequest{Lose: 0.5}, 1000, 100, 0, judgeLoss},
		{fault.NeedDelay, NetworkRequest{DelayNS: int64(trialDelay)}, 200, 100, time.Millisecond, judgeDelay},
		{fault.NeedRate, NetworkRequest{RateBits: trialRate}, 80, 1000, 0, judgeRate},
	} {
		t.request.Direction = In
		o := Offer{What: t.what}
		for turn := range trialTurns {
			if turn > 0 && wake.Pause(ctx, trialRest) != nil {
				break // with the last result
			}
			arrivals, packets, err := s.try(ctx, t.request, t.packets, t.bytes, t.gap)
			if err != nil {
				o.Detail = err.Error()
				if t.what == fault.NeedDelay || t.what == fault.NeedRate {
					o.Detail = "packets cannot be held in a netfilter queue: " + o.Detail
				}
				break
			}
			if o.Detail, err = t.judge(arrivals, packets, t.packets); err == nil {
				o.OK = true
				break
			}
			o.Detail = err.Error()
		}
		out = append(out, o)
	}
	return out
}

// offerProcess tries what signals need: process descriptors, permission to signal
// processes of other users, and a mark.
func (s *Server) offerProcess() Offer {
	o := Offer{What: fault.NeedProcess}
	err := func() error {
		pids, err := s.processes.pids()
		if err != nil {
			return err
		}
		foreign := 0
		for _, pid := range pids {
			info, err := os.Stat(s.processes.path(pid, "."))
			if err != nil || info.Sys().(*syscall.Stat_t).Uid == uint32(os.Geteuid()) {
				continue
			}
			one := s.processes.look([]Process{{PID: pid}})[0]
			now, err := s.processes.stat(one.PID)
			if err != nil {
				continue
			}
			one.StartTicks = now.StartTime
			if _, err := s.processes.signal([]Process{one}, 0); err != nil { // 0: only asks
				return err
			}
			foreign++
		}
		o.Detail = fmt.Sprintf("%d processes, may signal %d of other users", len(pids), foreign)
		ns, err := scratch()
		if err != nil {
			return err
		}
		defer ns.Close()
		m := mark{Owner: s.self, Stopped: s.self}
		if err := addMark(ns, m.String()); err != nil {
			return err
		}
		found, err := marks(ns)
		if err == nil && !slices.Contains(found, m) {
			err = errors.New("a mark is not found again")
		}
		return err
	}()
	if err != nil {
		o.Detail = err.Error()
	}
	o.OK = err == nil
	return o
}

// arrival is a received packet.
type arrival struct {
	number uint32
	took   time.Duration // from when it was sent
	at     time.Time
}

// try sends packets over a disturbed line in a scratch namespace.
func (s *Server) try(ctx context.Context, request NetworkRequest, count, bytes int, gap time.Duration) (arrivals []arrival, p Packets, err error) {
	ns, err := scratch(trialFrom.String()+"/32", trialTo.String()+"/32")
	if err != nil {
		return nil, p, err
	}
	defer ns.Close()
	var from, to *net.UDPConn
	err = ns.do(func() (err error) {
		if to, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(trialTo, trialPort))); err != nil {
			return err
		}
		if err = widen(to); err != nil {
			return err
		}
		from, err = net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(trialFrom, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(trialTo, trialPort)))
		return err
	})
	if to != nil {
		defer to.Close()
	}
	if from != nil {
		defer from.Close()
	}
	if err != nil {
		return nil, p, fmt.Errorf("sockets in a namespace for trials: %w", err)
	}
	d, err := disturb(ns, mark{Owner: s.self}.String(), []netip.Addr{trialFrom}, request)
	if err != nil {
		return nil, p, err
	}
	defer func() { err = errors.Join(err, d.end()) }()
	done := make(chan []arrival)
	go func() { done <- receive(to) }()
	err = send(ctx, from, count, bytes, gap)
	// The receiver ends when nothing has come for a while.
	expect := time.Duration(request.DelayNS)
	if request.RateBits > 0 {
		expect += time.Duration(int64(count*bytes*8) * int64(time.Second) / request.RateBits)
	}
	err = errors.Join(err, to.SetReadDeadline(time.Now().Add(expect+trialPatience)))
	arrivals = <-done
	if err != nil {
		return nil, p, err
	}
	p, err = d.count()
	return arrivals, p, err
}

// widen gives a socket a buffer for all packets of a trial, so that a busy CPU loses
// none.
func widen(c *net.UDPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20) })
	return errors.Join(err, failed)
}

func send(ctx context.Context, from *net.UDPConn, count, bytes int, gap time.Duration) error {
	packet := make([]byte, bytes)
	for i := range count {
		if err := ctx.Err(); err != nil {
			return err
		}
		binary.BigEndian.PutUint32(packet, uint32(i))
		binary.BigEndian.PutUint64(packet[4:], uint64(time.Now().UnixNano()))
		if _, err := from.Write(packet); err != nil && !errors.Is(err, unix.EPERM) {
			return err
		}
		if gap > 0 {
			time.Sleep(gap)
		}
	}
	return nil
}

// receive reads packets until their deadline.
func receive(to *net.UDPConn) []arrival {
	var out []arrival
	packet := make([]byte, 2048)
	for {
		n, err := to.Read(packet)
		if err != nil {
			return out
		}
		now := time.Now()
		if n >= 12 {
			sent := int64(binary.BigEndian.Uint64(packet[4:]))
			out = append(out, arrival{binary.BigEndian.Uint32(packet), time.Duration(now.UnixNano() - sent), now})
		}
	}
}

func judgeCut(got []arrival, p Packets, sent int) (string, error) {
	if len(got) > 0 || p.Matched != int64(sent) || p.Dropped != int64(sent) {
		return "", fmt.Errorf("of %d packets that should be dropped %d came; counted: %d, dropped: %d", sent, len(got), p.Matched, p.Dropped)
	}
	return fmt.Sprintf("dropped %d of %d packets", p.Dropped, sent), nil
}

// judgeLoss wants half of the packets lost, within six standard deviations.
func judgeLoss(got []arrival, p Packets, sent int) (string, error) {
	if p.Matched != int64(sent) || p.Dropped+int64(len(got)) != int64(sent) || len(got) < sent/2-sent/10 || len(got) > sent/2+sent/10 {
		return "", fmt.Errorf("of %d packets half should be lost; %d came; counted: %d, dropped: %d", sent, len(got), p.Matched, p.Dropped)
	}
	return fmt.Sprintf("dropped %d of %d packets, where half was asked for", p.Dropped, sent), nil
}

func judgeDelay(got []arrival, _ Packets, sent int) (string, error) {
	if len(got) != sent {
		return "", fmt.Errorf("of %d delayed packets %d came", sent, len(got))
	}
	slices.SortFunc(got, func(a, b arrival) int { return int(a.took - b.took) })
	least, median, most := got[0].took, got[sent/2].took, got[sent-1].took
	text := fmt.Sprintf("%d packets at 1,000/s took %v to %v, median %v, where %v was asked for", sent,
		least.Round(time.Microsecond), most.Round(time.Microsecond), median.Round(time.Microsecond), trialDelay)
	if least < trialDelay-delayError || (median-trialDelay).Abs() > delayError {
		return "", errors.New(text)
	}
	return text, nil
}

func judgeRate(got []arrival, _ Packets, sent int) (string, error) {
	if len(got) != sent {
		return "", fmt.Errorf("of %d packets over a slow line %d came", sent, len(got))
	}
	const packetBits = (1000 + 28) * 8 // with the headers of UDP and IP
	rate := float64(packetBits*(sent-1)) / got[sent-1].at.Sub(got[0].at).Seconds()
	text := fmt.Sprintf("%.0f bit/s, where %d was asked for", rate, trialRate)
	if rate < trialRate*(1-rateError) || rate > trialRate*(1+rateError) {
		return "", errors.New(text)
	}
	return text, nil
}
