package dev.verbena.netty;

import static java.util.concurrent.TimeUnit.SECONDS;

import dev.verbena.Connector;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessagingException;

import io.netty.buffer.ByteBuf;
import io.netty.channel.AbstractChannel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelMetadata;
import io.netty.channel.ChannelOutboundBuffer;
import io.netty.channel.ChannelPromise;
import io.netty.channel.ConnectTimeoutException;
import io.netty.channel.EventLoop;
import io.netty.channel.FileRegion;
import io.netty.channel.IoEventLoop;
import io.netty.channel.IoRegistration;
import io.netty.channel.socket.ChannelInputShutdownEvent;
import io.netty.channel.socket.ChannelInputShutdownReadComplete;
import io.netty.channel.socket.ServerSocketChannel;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.SocketChannelConfig;
import io.netty.util.IllegalReferenceCountException;
import io.netty.util.ReferenceCounted;
import io.netty.util.concurrent.PromiseNotifier;
import io.netty.util.concurrent.ScheduledFuture;
import io.netty.util.internal.StringUtil;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.channels.AlreadyBoundException;
import java.nio.channels.AlreadyConnectedException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.NotYetConnectedException;
import java.nio.channels.UnresolvedAddressException;
import java.nio.channels.UnsupportedAddressTypeException;
import java.util.Objects;

/**
 * A stream of bytes over RDMA, on an event loop of {@link RdmaIoHandler}. It behaves as Netty's
 * channels over TCP do, except that the promise of a write succeeds only when the peer's device has
 * the bytes.
 *
 * <p><b>What is written</b> from registered memory (the channel's default allocator) is sent from
 * there; all else is copied once. <b>What is read</b> is a buffer over the memory that the device
 * has written to, which the channel uses again when the buffer is released. It lends at most half
 * of its receives: what comes beyond is copied, so that a pipeline may keep as much as it likes.
 *
 * <p>The peer may be a {@link MessageChannel}: its messages are the bytes in any grouping, and an
 * empty one is the end of the stream.
 */
public final class RdmaChannel extends AbstractChannel implements SocketChannel {
    private static final ChannelMetadata METADATA = new ChannelMetadata(false, 64);
    private static final String EXPECTED =
            " (expected: %s, %s)"
                    .formatted(
                            StringUtil.simpleClassName(ByteBuf.class),
                            StringUtil.simpleClassName(FileRegion.class));

    private final RdmaChannelConfig config = new RdmaChannelConfig(this);
    private final Establishing establishing;
    private volatile boolean open = true;
    private volatile boolean active;
    private volatile boolean inputShutdown;
    private volatile boolean outputShutdown;
    private volatile @Nullable InetSocketAddress local;
    private volatile @Nullable InetSocketAddress remote;

    // Of the event loop.
    private @Nullable IoRegistration registration;
    private @Nullable MessageChannel messages; // once it is established
    private final Incoming incoming = new Incoming(this, config);
    private @Nullable Outgoing outgoing;
    private boolean peerEnded; // the stream
    private boolean gone; // the connection has ended
    private boolean cutsStream; // it closes before all that was flushed has arrived
    private boolean endReported;
    private @Nullable ScheduledFuture<?> lingering; // a close waits for what was flushed until then
    private @Nullable ChannelPromise shutting; // the same, of the output

    /** A channel that is to connect. */
    public RdmaChannel() {
        super(null);
        this.establishing = new Establishing(this, config, null);
    }

    /** A channel of a peer's, which is accepted once it is registered. */
    RdmaChannel(RdmaServerChannel parent, Connector request) {
        super(parent);
        this.establishing = new Establishing(this, config, request);
        noteAddresses(request);
        var _ = config.setTrafficClass(((RdmaServerChannelConfig) parent.config()).trafficClass());
    }

    final class RdmaUnsafe extends AbstractUnsafe implements RdmaHandle {
        @Override
        public void connect(
                SocketAddress peer, @Nullable SocketAddress from, ChannelPromise promise) {
            if (promise.isDone() || !ensureOpen(promise)) {
                return;
            }
            try {
                if (active) {
                    throw new AlreadyConnectedException();
                }
                establishing.connect(inet(peer), from == null ? local : inet(from), promise);
            } catch (Throwable t) {
                var _ = promise.tryFailure(whyNot(t, peer, from == null ? local : from));
                closeIfClosed();
            }
        }

        Throwable whyNot(Throwable thrown, SocketAddress peer, @Nullable SocketAddress from) {
            Throwable why =
                    Exceptions.ofConnect(thrown, peer, from, config.getConnectTimeoutMillis());
            return why instanceof ConnectTimeoutException
                    ? why
                    : annotateConnectException(why, peer);
        }

        /** Closes it when what was flushed has arrived: a program writes, flushes and closes. */
        @Override
        public void close(ChannelPromise promise) {
            if (!active || gone || !config.lingers() || !isSending()) {
                super.close(promise);
                return;
            }
            closeFuture().addListener(closed -> promise.trySuccess());
            if (lingering == null) {
                incoming.drop();
                lingering = eventLoop().schedule(() -> close(), config.lingerSeconds(), SECONDS);
            }
        }

        /** By every close, also that after a write that has failed. */
        @Override
        protected void close(ChannelPromise promise, Throwable why, ClosedChannelException closed) {
            cutsStream |= isSending();
            Throwable reason = why;
            if (gone) {
                reason = Exceptions.ofEnd(closeReason());
                if (closed.getCause() == null) {
                    closed.initCause(reason);
                }
            }
            super.close(promise, reason, closed);
        }

        /** Whether the peer does not have all that was flushed. */
        boolean isSending() {
            ChannelOutboundBuffer in = outboundBuffer();
            return (outgoing != null && outgoing.isInFlight()) || (in != null && in.size() > 0);
        }

        /** By the event loop, when it ends. */
        @Override
        public void close() {
            super.close(voidPromise());
        }

        /** The peer is gone: what has come can be read still, and what was written fails. */
        void failWrites() {
            ChannelOutboundBuffer in = outboundBuffer();
            if (open && in != null && !in.isEmpty()) {
                // Shuts the output down: it is no IOException, which may close the channel.
                handleWriteError(closeReason());
            }
        }

        @Override
        @SuppressWarnings("RedundantOverride") // for the channel
        protected void flush0() {
            super.flush0();
        }
    }

    static InetSocketAddress inet(SocketAddress address) {
        if (address instanceof InetSocketAddress inet) {
            if (inet.isUnresolved()) {
                throw new UnresolvedAddressException();
            }
            return inet;
        }
        throw new UnsupportedAddressTypeException();
    }

    /** AUTO_READ was switched off: a read that has not begun does not take place. */
    void clearReadPending() {
        if (!isRegistered() || eventLoop().inEventLoop()) {
            incoming.readsNoMore();
        } else {
            eventLoop().execute(incoming::readsNoMore);
        }
    }

    private MessageChannel messages() {
        return Objects.requireNonNull(messages);
    }

    RdmaIoHandler handler() {
        return Objects.requireNonNull(registration).attachment();
    }

    RdmaUnsafe rdmaUnsafe() {
        return (RdmaUnsafe) unsafe();
    }

    @Override
    protected AbstractUnsafe newUnsafe() {
        return new RdmaUnsafe();
    }

    // ---- its event loop

    @Override
    protected boolean isCompatible(EventLoop loop) {
        return loop instanceof IoEventLoop one && one.isCompatible(RdmaUnsafe.class);
    }

    @Override
    protected void doRegister(ChannelPromise promise) {
        ((IoEventLoop) eventLoop())
                .register(rdmaUnsafe())
                .addListener(
                        future -> {
                            if (!future.isSuccess()) {
                                promise.setFailure(future.cause());
                                return;
                            }
                            registration = (IoRegistration) future.getNow();
                            try {
                                registered(promise);
                            } catch (Throwable t) {
                                notRegistered(promise, t);
                            }
                        });
    }

    private void registered(ChannelPromise promise) {
        RdmaIoHandler handler = handler();
        config.defaultAllocator(handler.allocator());
        incoming.limits(handler.options().messaging());
        if (establishing.accepts()) {
            establishing.accept(promise);
        } else {
            promise.setSuccess();
        }
    }

    /** The pipeline hears nothing of it. Netty closes the channel, and deregisters nothing. */
    void notRegistered(ChannelPromise promise, Throwable why) {
        doDeregister();
        promise.setFailure(why);
    }

    /** Its queue pair belongs to the thread of its event loop: it cannot change to another one. */
    @Override
    protected void doDeregister() {
        IoRegistration last = registration;
        boolean wasActive = active;
        if (open && (wasActive || establishing.pends())) {
            rdmaUnsafe().close();
            if (wasActive) {
                pipeline().fireChannelInactive(); // Netty does so after it has removed the handlers
            }
        }
        if (last != null) {
            var _ = last.cancel();
        }
    }

    /** A connection that has ended already has none, and is reported soon. */
    private void noteAddresses(Connector connector) {
        try {
            remote = connector.peerAddress();
            local = connector.localAddress();
        } catch (VerbenaException e) {
            return;
        }
    }

    /** The connection is established. */
    @SuppressWarnings("deprecation") // invalidateLocalAddress, which Netty has no other way for
    void stands(MessageChannel channel) {
        messages = channel;
        outgoing =
                new Outgoing(
                        this,
                        channel,
                        handler().allocator(),
                        handler().options().messaging().eagerLimit());
        channel.connector().ifPresent(this::noteAddresses);
        active = true;
        invalidateLocalAddress(); // that of a bind
        channel.onRoom(this::roomChanged);
    }

    /** The pipeline knows that it is active. */
    void begins() {
        incoming.wantWaiting(); // what came before
        reportEnd();
        var _ = messages().closed().whenComplete((status, thrown) -> ended());
    }

    // ---- reading

    /** A message has come. */
    void received(Message message) {
        if (!open || inputShutdown || lingering != null) {
            return; // it is released
        }
        if (message.length() == 0) {
            peerEnded = true;
            reportEnd();
        } else {
            incoming.received(message);
        }
    }

    @Override
    protected void doBeginRead() {
        incoming.beginRead();
    }

    /** Reports the end of the stream, once all that came before was read. */
    void reportEnd() {
        if (!active || incoming.isReading() || !(peerEnded || gone)) {
            return;
        }
        if (!endReported && !inputShutdown) {
            endReported = true;
            pipeline().fireChannelReadComplete(); // of the read that finds the end, as over TCP
            if (!open) {
                return;
            }
            if (!config.isAllowHalfClosure()) {
                rdmaUnsafe().close(voidPromise());
            } else if (!inputShutdown) { // unless a handler has just done it
                inputShutdown = true;
                pipeline().fireUserEventTriggered(ChannelInputShutdownEvent.INSTANCE);
                pipeline().fireUserEventTriggered(ChannelInputShutdownReadComplete.INSTANCE);
            }
        }
        if (gone) {
            rdmaUnsafe().close(voidPromise());
        }
    }

    // ---- writing

    @Override
    protected Object filterOutboundMessage(Object message) throws ClosedChannelException {
        if (lingering != null || shutting != null) {
            throw new ClosedChannelException();
        }
        if (message instanceof ReferenceCounted counted && counted.refCnt() == 0) {
            throw new IllegalReferenceCountException(0); // its memory may be another buffer's
        }
        if (message instanceof FileRegion file && file.transferred() > 0) {
            throw new IllegalArgumentException(
                    "A part of %s was transferred before".formatted(message));
        }
        if (message instanceof ByteBuf || message instanceof FileRegion) {
            return message;
        }
        throw new UnsupportedOperationException(
                "unsupported message type: " + StringUtil.simpleClassName(message) + EXPECTED);
    }

    @Override
    protected void doWrite(ChannelOutboundBuffer in) throws Exception {
        if (gone) { // and something waits to be read
            eventLoop().execute(() -> rdmaUnsafe().failWrites());
            return;
        }
        boolean written = false;
        try {
            Objects.requireNonNull(outgoing).write(in);
            written = true;
        } catch (VerbenaException e) {
            throw Exceptions.ofEnd(e); // which closes the channel, as over TCP
        } finally {
            cutsStream |= !written;
        }
    }

    /** The peer has so many bytes more. */
    void arrived(long bytes) {
        RdmaUnsafe mine = rdmaUnsafe();
        ChannelOutboundBuffer in = mine.outboundBuffer();
        Outgoing out = Objects.requireNonNull(outgoing);
        if (in != null) {
            out.remove(in, bytes);
        }
        mine.flush0();
        if (!mine.isSending()) {
            nothingToSend();
        }
    }

    private void failShutdown(Exception why) {
        ChannelPromise promise = shutting;
        shutting = null;
        if (promise != null) {
            var _ = promise.tryFailure(why);
        }
    }

    private void nothingToSend() {
        ChannelPromise promise = shutting;
        if (promise != null) {
            shutting = null;
            rdmaUnsafe().shutdownOutput(promise);
        }
        lingersNoMore();
    }

    private void lingersNoMore() {
        if (lingering != null) {
            rdmaUnsafe().close();
        }
    }

    private void roomChanged() {
        Objects.requireNonNull(outgoing).roomChanged();
        rdmaUnsafe().flush0();
    }

    @Override
    protected void doShutdownOutput() {
        outputShutdown = true;
        if (outgoing != null) {
            outgoing.drop();
            if (cutsStream) { // a write has failed
                messages().abort("a write to its channel had failed");
            } else {
                outgoing.end();
            }
        }
    }

    // ---- the end

    /** Why the connection has ended. */
    private MessagingException closeReason() {
        return Objects.requireNonNull(messages().closeReason());
    }

    /** The connection has ended, and all callbacks were called. */
    private void ended() {
        gone = true;
        if (!open) {
            return;
        }
        MessagingException why = closeReason();
        failShutdown(Exceptions.ofEnd(why));
        lingersNoMore();
        // The peer has closed it, as the end of a TCP stream; or something is wrong.
        boolean peerClosed = why.status() == Status.CONNECTION_INVALID;
        if (!config.isAutoClose() || (peerClosed && incoming.waits())) {
            rdmaUnsafe().failWrites();
        }
        if (peerClosed) {
            reportEnd();
        } else if (open) {
            incoming.drop();
            pipeline().fireExceptionCaught(Exceptions.ofEnd(why));
            rdmaUnsafe().close(voidPromise());
        }
    }

    @Override
    protected void doBind(SocketAddress address) {
        if (local != null) {
            throw new AlreadyBoundException();
        }
        local = inet(address); // the connect uses it
    }

    @Override
    protected void doDisconnect() {
        doClose();
    }

    @Override
    protected void doClose() {
        open = false;
        active = false;
        inputShutdown = true;
        outputShutdown = true;
        establishing.end();
        failShutdown(new ClosedChannelException());
        incoming.drop();
        RdmaUnsafe mine = rdmaUnsafe();
        cutsStream |= mine.isSending() || !config.lingers();
        if (registration != null && mine.outboundBuffer() != null) {
            eventLoop().execute(mine::close); // by force: its writes fail, and it is deregistered
        }
        if (outgoing != null) {
            outgoing.drop();
        }
        ScheduledFuture<?> timer = lingering;
        lingering = null;
        if (timer != null) {
            var _ = timer.cancel(false);
        }
        if (messages != null && cutsStream) {
            messages.abort(
                    config.lingers()
                            ? "its channel was closed before all bytes had arrived"
                            : "its channel was closed, and SO_LINGER is 0");
        } else if (messages != null) {
            var _ = messages.closeAsync();
        }
    }

    @Override
    public boolean isOpen() {
        return open;
    }

    @Override
    public boolean isActive() {
        return active;
    }

    // ---- the two halves

    @Override
    public boolean isInputShutdown() {
        return inputShutdown;
    }

    @Override
    public boolean isOutputShutdown() {
        return outputShutdown;
    }

    @Override
    public boolean isShutdown() {
        return inputShutdown && outputShutdown;
    }

    @Override
    public ChannelFuture shutdownInput() {
        return shutdownInput(newPromise());
    }

    @Override
    public ChannelFuture shutdownInput(ChannelPromise promise) {
        inLoop(() -> shutInput(promise));
        return promise;
    }

    private void shutInput(ChannelPromise promise) {
        if (!active) {
            promise.setFailure(
                    open ? new NotYetConnectedException() : new ClosedChannelException());
        } else {
            inputShutdown = true;
            incoming.drop();
            promise.setSuccess();
            reportEnd(); // it may have waited for a read
        }
    }

    @Override
    public ChannelFuture shutdownOutput() {
        return shutdownOutput(newPromise());
    }

    /** Waits until what was flushed has arrived. */
    @Override
    public ChannelFuture shutdownOutput(ChannelPromise promise) {
        inLoop(() -> shutOutput(promise));
        return promise;
    }

    private void shutOutput(ChannelPromise promise) {
        RdmaUnsafe mine = rdmaUnsafe();
        if (open && !active) {
            promise.setFailure(new NotYetConnectedException());
        } else if (shutting != null) {
            var _ = shutting.addListener(new PromiseNotifier<>(promise));
        } else if (mine.isSending() && !gone) {
            if (promise.setUncancellable()) {
                outputShutdown = true;
                shutting = promise;
            }
        } else {
            mine.shutdownOutput(promise);
        }
    }

    private void inLoop(Runnable task) {
        if (eventLoop().inEventLoop()) {
            task.run();
        } else {
            eventLoop().execute(task);
        }
    }

    @Override
    public ChannelFuture shutdown() {
        return shutdown(newPromise());
    }

    @Override
    public ChannelFuture shutdown(ChannelPromise promise) {
        shutdownOutput().addListener(output -> shutInputAfter(output.cause(), promise));
        return promise;
    }

    private void shutInputAfter(@Nullable Throwable ofOutput, ChannelPromise promise) {
        ChannelFuture input = shutdownInput();
        if (ofOutput == null) {
            var _ = input.addListener(new PromiseNotifier<>(promise));
        } else {
            promise.setFailure(ofOutput);
        }
    }

    // ---- what it says

    /**
     * How many bytes the channel has copied: what was written from memory that is not registered,
     * or in pieces of less than 1 KiB, and what came while the pipeline kept half of the receives.
     *
     * @return 0 or more, as of a moment ago
     */
    public long copiedBytes() {
        Outgoing out = outgoing;
        return incoming.copied() + (out == null ? 0 : out.copied());
    }

    @Override
    public SocketChannelConfig config() {
        return config;
    }

    @Override
    public ChannelMetadata metadata() {
        return METADATA;
    }

    @Override
    public @Nullable ServerSocketChannel parent() {
        return (ServerSocketChannel) super.parent();
    }

    @Override
    public @Nullable InetSocketAddress localAddress() {
        return (InetSocketAddress) super.localAddress();
    }

    @Override
    public @Nullable InetSocketAddress remoteAddress() {
        return (InetSocketAddress) super.remoteAddress();
    }

    @Override
    protected @Nullable SocketAddress localAddress0() {
        return local;
    }

    @Override
    protected @Nullable SocketAddress remoteAddress0() {
        return remote;
    }
}
