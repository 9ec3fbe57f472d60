package dev.verbena.nativetest;

import io.vertx.core.Completable;
import io.vertx.core.Vertx;
import io.vertx.core.shareddata.AsyncMap;
import io.vertx.core.shareddata.Counter;
import io.vertx.core.shareddata.Lock;
import io.vertx.core.spi.cluster.ClusterManager;
import io.vertx.core.spi.cluster.NodeInfo;
import io.vertx.core.spi.cluster.NodeListener;
import io.vertx.core.spi.cluster.RegistrationInfo;
import io.vertx.core.spi.cluster.RegistrationListener;
import io.vertx.core.spi.cluster.RegistrationUpdateEvent;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/**
 * The members of a cluster of Vert.x nodes that this process knows, and who of them listens to
 * what: its own members, and those of other processes as they were declared. Only messages of the
 * event bus then go over the network.
 */
final class KnownCluster {
    private final ConcurrentMap<String, Member> members = new ConcurrentHashMap<>();
    private final ConcurrentMap<String, List<RegistrationInfo>> registrations =
            new ConcurrentHashMap<>();

    /** Another member, of this name. */
    ClusterManager member(String name) {
        return new Member(name);
    }

    /** Declares a member in another process, and the addresses that it listens to. */
    void declare(String name, NodeInfo info, String... addresses) {
        Member member = new Member(name);
        member.info = info;
        member.registered = new RegistrationListener() {};
        members.put(name, member);
        for (String address : addresses) {
            change(address, new RegistrationInfo(name, 1, false), null, null);
        }
    }

    private void change(
            String address, RegistrationInfo added, String removedNode, RegistrationInfo removed) {
        List<RegistrationInfo> now =
                registrations.compute(
                        address,
                        (_, before) -> {
                            List<RegistrationInfo> after =
                                    new ArrayList<>(before == null ? List.of() : before);
                            after.removeIf(
                                    info ->
                                            info.equals(removed)
                                                    || info.nodeId().equals(removedNode));
                            if (added != null) {
                                after.add(added);
                            }
                            return after;
                        });
        var event = new RegistrationUpdateEvent(address, now);
        members.values().forEach(member -> member.registered.registrationsUpdated(event));
    }

    private final class Member implements ClusterManager {
        private final String name;
        private volatile RegistrationListener registered;
        private volatile NodeInfo info;

        Member(String name) {
            this.name = name;
        }

        @Override
        public void init(Vertx vertx) {}

        @Override
        public void join(Completable<Void> done) {
            members.put(name, this);
            done.succeed();
        }

        @Override
        public void leave(Completable<Void> done) {
            members.remove(name);
            registrations.keySet().forEach(address -> change(address, null, name, null));
            done.succeed();
        }

        @Override
        public boolean isActive() {
            return members.containsKey(name);
        }

        @Override
        public String getNodeId() {
            return name;
        }

        @Override
        public List<String> getNodes() {
            return List.copyOf(members.keySet());
        }

        @Override
        public void nodeListener(NodeListener listener) {}

        @Override
        public void setNodeInfo(NodeInfo nodeInfo, Completable<Void> done) {
            info = nodeInfo;
            done.succeed();
        }

        @Override
        public NodeInfo getNodeInfo() {
            return info;
        }

        @Override
        public void getNodeInfo(String nodeId, Completable<NodeInfo> done) {
            Member member = members.get(nodeId);
            if (member == null) {
                done.fail("There is no member " + nodeId);
            } else {
                done.succeed(member.info);
            }
        }

        @Override
        public void registrationListener(RegistrationListener listener) {
            registered = listener;
        }

        @Override
        public void addRegistration(
                String address, RegistrationInfo registration, Completable<Void> done) {
            change(address, registration, null, null);
            done.succeed();
        }

        @Override
        public void removeRegistration(
                String address, RegistrationInfo registration, Completable<Void> done) {
            change(address, null, null, registration);
            done.succeed();
        }

        @Override
        public void getRegistrations(String address, Completable<List<RegistrationInfo>> done) {
            done.succeed(registrations.getOrDefault(address, List.of()));
        }

        @Override
        public <K, V> void getAsyncMap(String map, Completable<AsyncMap<K, V>> done) {
            done.fail("no shared maps here");
        }

        @Override
        public <K, V> Map<K, V> getSyncMap(String map) {
            throw new UnsupportedOperationException("no shared maps here");
        }

        @Override
        public void getLockWithTimeout(String lock, long timeout, Completable<Lock> done) {
            done.fail("no locks here");
        }

        @Override
        public void getCounter(String counter, Completable<Counter> done) {
            done.fail("no counters here");
        }
    }
}
