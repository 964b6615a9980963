package contest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"
)

func ceiling() Contestant {
	return Contestant{
		Name: "ceiling", About: "hand-made pipelines of holdfast's own scripts, up to 64 deep: nobody waits, nothing is checked",
		In:   "w1 w2",
		Open: openCeiling,
	}
}

type ceilingSession struct {
	rdb              *redis.Client
	ttl              time.Duration
	acquire, release string // SHA-1 of the scripts
}

func openCeiling(ctx context.Context, env Env) (Session, error) {
	s := &ceilingSession{rdb: client(env.Addrs[0]), ttl: env.TTL}
	for name, sha := range map[string]*string{"acquire": &s.acquire, "release": &s.release} {
		text, err := script(name)
		if err != nil {
			return nil, err
		}
		if *sha, err = s.rdb.ScriptLoad(ctx, text).Result(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// script reads a script of redisstore, which a program does not get at.
func script(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "guard", "redisstore", "lua", name+".lua"))
		if err == nil {
			return string(text), nil
		}
		up := filepath.Dir(dir)
		if !errors.Is(err, os.ErrNotExist) || up == dir {
			return "", fmt.Errorf("contest: run this inside the repository: %w", err)
		}
		dir = up
	}
}

func (s *ceilingSession) Close() error { return s.rdb.Close() }

func (s *ceilingSession) Acquire(context.Context, string) (Lease, error) {
	return nil, errors.New("contest: the ceiling takes pipelines only")
}

func (s *ceilingSession) Pairs(ctx context.Context, names []string) error {
	owner := "-" + rand.Text()[:22] + "|"
	want := 'G'
	for _, sha := range []string{s.acquire, s.release} {
		replies, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, n := range names {
				lease := "lock:{" + n + "}"
				if sha == s.acquire {
					p.EvalSha(ctx, sha, []string{lease, lease + ":fence"}, owner, s.ttl.Milliseconds(), "|ceiling")
				} else {
					p.EvalSha(ctx, sha, []string{lease}, owner)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, r := range replies {
			if text, _ := r.(*redis.Cmd).Text(); text == "" || rune(text[0]) != want {
				return fmt.Errorf("contest: ceiling: answer %q", text)
			}
		}
		want = 'D'
	}
	return nil
}
