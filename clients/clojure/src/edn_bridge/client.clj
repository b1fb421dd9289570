(ns edn-bridge.client
  "A client of edn-bridge. It needs nothing but Clojure: answers are promises, events go to functions of one argument.

    (with-open [bridge (connect {:dir \"/my/project\"})]
      (:text @(prompt! bridge \"What does this project do?\")))

  A connection has a thread that reads lines and keeps the promises of requests, one that calls the handlers of events,
  one after the other, and one that calls :on-question, if there is that. Each prompt! that runs has one more. So
  handlers may make requests and prompts and wait for them."
  (:require [clojure.edn :as edn]
            [clojure.java.io :as io]
            [clojure.string :as str])
  (:import (java.io BufferedInputStream ByteArrayOutputStream Closeable IOException InputStream OutputStream
                    PushbackReader StringReader)
           (java.nio ByteBuffer)
           (java.nio.channels SocketChannel)
           (java.nio.charset StandardCharsets)
           (java.security MessageDigest)
           (java.util.concurrent LinkedBlockingQueue TimeUnit)))

(set! *warn-on-reflection* true)

(def ^:private max-line "The longest line that is sent, in bytes: the bridge reads no longer one." (* 16 1024 1024))
(def ^:private max-received "The longest line that is read, in bytes. More than the bridge sends." (* 64 1024 1024))
(def ^:private max-queued
  "The events that wait for handlers. Further ones are counted as missed. For an :on-delta, further pieces are left out
  without a word: the promise has the whole text."
  10000)
(def ^:private max-questions "The questions that wait for :on-question. Further ones are left to others." 1000)
(def ^:private timeout-ms "How long `ask` waits, unless it says otherwise." 60000)
(def ^:private close-ms "How long `close!` waits for the process before it ends it." 10000)

;; Lines

(defn read-form
  "Reads a text that is one form of EDN. A tag becomes a tagged literal."
  [^String text]
  (let [reader (PushbackReader. (StringReader. text))
        options {:eof ::end :default tagged-literal}
        form (edn/read options reader)]
    (when (or (= ::end form) (not= ::end (edn/read options reader)))
      (throw (ex-info "The text is not one form." {:code "client/invalid"})))
    form))

(defn write-form
  "Writes a value on one line. Throws if it cannot be read back, such as a function or a keyword with a blank."
  [value]
  (let [line (binding [*print-length* nil *print-level* nil *print-meta* false
                       *print-namespace-maps* false *print-readably* true *print-dup* false]
               (pr-str value))]
    ;; Without :default, so that an object that is no data is refused: it is printed with a tag.
    (try (edn/read-string line)
         (read-form line)
         (catch RuntimeException error
           (throw (ex-info (str "The value has no form in EDN: " (ex-message error)) {:code "client/invalid"} error))))
    ;; Clojure escapes line ends in strings, so only an odd name can have one.
    (when (str/includes? line "\n")
      (throw (ex-info "A name has a line end." {:code "client/invalid"})))
    line))

(defn- read-line-bytes
  "The next line as text; nil at the end of the input. The reader of Java would take a line of any length."
  [^InputStream in]
  (let [out (ByteArrayOutputStream.)]
    (loop []
      (let [b (.read in)]
        (cond
          (= b 10) (.toString out "UTF-8")
          (neg? b) (when (pos? (.size out)) (throw (IOException. "the bridge has ended in the middle of a line")))
          (= (.size out) (long max-received)) (throw (IOException. "the bridge sent a line that is too long"))
          :else (do (.write out b) (recur)))))))

;; The connection

(declare close!)

(defrecord ^:private Connection
  ;; state: {:pending {id promise}, :handlers {key {:topics :handler}}, :prompts {key function}, :closed reason}. The
  ;; reader calls the functions of :prompts with each event, and `end!` with ::end. in is read by one thread only.
  [state ^InputStream in ^OutputStream out ^Process process hang-up ^LinkedBlockingQueue events
   ^LinkedBlockingQueue questions options server-info]
  Closeable
  (close [this]
    (close! this)))

;; A connection holds its own streams and promises; printing all of it helps nobody.
(defmethod print-method Connection [connection ^java.io.Writer writer]
  (.write writer (str "#<edn-bridge " (or (:closed @(:state connection)) "connected") ">")))

(defn- refusal [code message & {:as more}]
  (merge {:ok false :code code :message message} more))

(defn- end!
  "Ends a connection once: every promise is kept, every thread told."
  [{:keys [state ^LinkedBlockingQueue events ^LinkedBlockingQueue questions]} reason]
  (let [[before _] (swap-vals! state #(if (:closed %) % (assoc % :closed reason :pending {})))]
    (when-not (:closed before)
      (doseq [[_ answer] (:pending before)]
        (deliver answer (refusal "client/closed" reason)))
      (doseq [put! (vals (:prompts before))]
        (put! ::end))
      ;; A full queue has room again once its reader goes on.
      (doseq [^LinkedBlockingQueue queue [events questions]]
        (when-not (.offer queue ::end)
          (.clear queue)
          (.offer queue ::end))))))

(defn close!
  "Ends the connection; of a bridge that `connect` started, the process too. With a daemon, a running turn goes on."
  [{:keys [^OutputStream out ^Process process hang-up] :as connection}]
  (end! connection "the connection was closed")
  (try (.close out) (catch IOException _ nil))          ; the other side may have gone already
  (hang-up)
  (when (and process (not (.waitFor process close-ms TimeUnit/MILLISECONDS)))
    (.waitFor (.destroyForcibly process))))

(defn- answer-of
  "What a promise of `request!` is kept with, from a frame."
  [frame]
  (if (= :error (:kind frame))
    (merge (refusal (:error-code frame) (:error-message frame) :retryable (true? (:retryable frame)))
           (select-keys frame [:op :data]))
    {:ok true :data (:data frame)}))

(defn- take-frame! [{:keys [state ^LinkedBlockingQueue events] :as connection} frame]
  (if (= :event (:kind frame))
    (let [seq-before (:seq @state 0)
          missed (+ (:missed @state 0) (max 0 (- (:seq frame) seq-before 1)))
          event {:topic (:event frame) :data (:data frame) :seq (:seq frame) :ts (:ts frame) :id (:id frame)
                 :missed missed}
          taken (.offer events event)]
      ;; Only this thread changes :seq and :missed.
      (swap! state assoc :seq (:seq frame) :missed (if taken 0 (inc missed)))
      (doseq [put! (vals (:prompts @state))]
        (put! event))
      (when (and (= "interaction/requested" (:topic event)) (:on-question (:options connection)))
        (.offer ^LinkedBlockingQueue (:questions connection) (:data event))))
    (let [[before _] (swap-vals! state update :pending dissoc (:id frame))]
      (if-let [answer (get (:pending before) (:id frame))]
        (deliver answer (answer-of frame))
        (when (= :error (:kind frame))
          (tap> {:edn-bridge/refused frame}))))))

(defn- read-lines! [{:keys [in ^Process process] :as connection}]
  (let [why (try
              (loop []
                (when-let [line (read-line-bytes in)]
                  (take-frame! connection (read-form line))
                  (recur)))
              "the bridge has ended"
              ;; Java may close the stream of a process that is killed under the reader.
              (catch IOException error (str "the bridge has ended: " (ex-message error)))
              ;; Also what is no exception, such as an overflow of the stack: every promise must be kept.
              (catch Throwable error (str "the bridge sent what is no frame: " (ex-message error))))
        ended (and process (not (:closed @(:state connection))) (.waitFor process 1 TimeUnit/SECONDS))]
    (end! connection (str why (when ended (str " (exit status " (.exitValue process) ")"))))))

(defn- call-handler! [handler event]
  (try (handler event)
       ;; Also what is no exception, such as that of `assert`: the thread has more to do.
       (catch Throwable error
         (tap> {:edn-bridge/handler-failed error :event event}))))

(defn- call-handlers! [{:keys [state ^LinkedBlockingQueue events]}]
  (loop []
    (let [event (.take events)]
      (when-not (= ::end event)
        (doseq [{:keys [topics handler]} (vals (:handlers @state))
                :when (contains? topics (:topic event))]
          (call-handler! handler event))
        (recur)))))

(defn- run-thread! [name run]
  (doto (Thread. ^Runnable run (str "edn-bridge " name))
    (.setDaemon true)
    (.start)))

;; Requests

(defn request!
  "Makes a request and returns a promise. It is kept with {:ok true :data …}, or with {:ok false :code :message
  :retryable} and, where there are, :op and :data. The code is the wire's, or client/closed, or client/invalid for
  params without a form in EDN. `deref` takes a time limit; `ask` waits and throws."
  ([connection op] (request! connection op {}))
  ([{:keys [state ^OutputStream out]} op params]
   (let [answer (promise)
         id (str (:last-id (swap! state update :last-id (fnil inc 0))))]
     (try
       (let [line (.getBytes (str (write-form {:id id :kind :request :op op :params params}) "\n")
                             StandardCharsets/UTF_8)]
         (when (< (long max-line) (alength line))
           (throw (ex-info "The request is longer than a line may be." {:code "client/invalid"})))
         (if-let [reason (:closed (swap! state #(if (:closed %) % (assoc-in % [:pending id] answer))))]
           (deliver answer (refusal "client/closed" reason :op op))
           (locking out
             (.write out line)
             (.flush out))))
       (catch clojure.lang.ExceptionInfo error
         (deliver answer (refusal (:code (ex-data error)) (ex-message error) :op op)))
       (catch IOException error
         (swap! state update :pending dissoc id)
         (deliver answer (refusal "client/closed" (str "the bridge reads no more: " (ex-message error)) :op op))))
     answer)))

(defn ask
  "Makes a request and waits for its :data. Throws an ex-info whose data is the refusal: see `request!`. After the time,
  its code is client/timeout."
  ([connection op] (ask connection op {}))
  ([connection op params] (ask connection op params timeout-ms))
  ([connection op params ms]
   (let [late (refusal "client/timeout" (str "no answer within " ms " ms") :op op)
         {:keys [ok data] :as answer} (deref (request! connection op params) ms late)]
     (if ok
       data
       (throw (ex-info (str op ": " (:message answer) " (" (:code answer) ")") (dissoc answer :ok)))))))

(defn query
  "Queries the graph: (query bridge [:psi.agent-session/phase {[:psi.op/name \"ping\"] [:psi.op/doc]}]). A strict query,
  which is the default, throws with the code runtime/query-failed if an attribute cannot be resolved."
  ([connection eql] (query connection eql {}))
  ([connection eql {:keys [entity strict session-id] :or {strict true}}]
   (:result (ask connection "query_eql"
                 (cond-> {:query (if (string? eql) eql (write-form eql)) :strict strict}
                   entity (assoc :entity (write-form entity))
                   session-id (assoc :session-id session-id))))))

;; Events

(defn subscribe!
  "Calls the handler with each event of the topics: {:topic :data :seq :ts :id :missed}. `tap>` is such a handler.

  :missed counts the events of the connection that were lost before this one: holes in :seq, and what was dropped
  because the handlers were too far behind. After a loss, ask for the state anew (get_messages, get_state).

  Handlers run one after the other, in a thread of their own. What one throws goes to tap> as
  {:edn-bridge/handler-failed exception :event event}. Returns a function that ends this."
  [{:keys [state] :as connection} topics handler]
  (let [key (Object.)
        stop (fn [] (swap! state update :handlers dissoc key) nil)]
    (swap! state assoc-in [:handlers key] {:topics (set topics) :handler handler})
    (try
      (when-let [ignored (seq (:ignored (ask connection "subscribe" {:topics (vec topics)})))]
        (throw (ex-info (str "no such topic: " (str/join ", " ignored)) {:code "client/invalid"})))
      (catch Exception error
        (stop)
        (throw error)))
    stop))

(defn- text-of
  "The text of a message. An event has a long one only in its blocks."
  [{:keys [text content]}]
  (or text (str/join (keep #(when (= :text (:type %)) (:text %)) content))))

(defn- turn-end
  "Takes the events of a turn until it or the connection ends. Returns what the promise of `prompt!` is kept with."
  [{:keys [state]} ^LinkedBlockingQueue events turn-id on-delta]
  (loop [messages []]
    (let [{:keys [topic data] :as event} (.take events)]
      (cond
        (= ::end event) (refusal "client/closed" (:closed @state))
        (not= turn-id (:turn-id data)) (recur messages)
        (= "assistant/delta" topic) (do (call-handler! #(on-delta (:text (:data %))) event)
                                        (recur messages))
        (= "assistant/message" topic) (recur (conj messages data))
        :else {:ok (= "completed" (:outcome data))
               :text (if-let [message (peek messages)] (text-of message) "")
               :outcome (:outcome data)
               :turn-id turn-id
               :stop-reason (:stop-reason data)
               :error (:error-message data)
               :usage (:usage data)
               :messages messages}))))

(defn prompt!
  "Starts a turn and returns a promise, kept at its end with {:ok :text :outcome :turn-id :stop-reason :error :usage
  :messages}. :ok is whether the :outcome is \"completed\". A refused prompt keeps it with a refusal, as `request!`. For
  a slash command, which has no turn, the :outcome is \"command\".

  Options: :on-delta, a function of each piece of text as it comes, called in a thread of this prompt, for the last time
  before the promise is kept; :params, further params of the op."
  ([connection message] (prompt! connection message {}))
  ([{:keys [state] :as connection} message {:keys [on-delta params]}]
   (let [result (promise)
         key (Object.)
         events (LinkedBlockingQueue.)
         ;; Called by the reader, so it waits for nothing. A turn has few messages and one end; they are never left out.
         put! (fn [{:keys [topic] :as event}]
                (when (or (= ::end event)
                          (contains? #{"assistant/message" "turn/ended"} topic)
                          (and on-delta (= "assistant/delta" topic) (< (.size events) (long max-queued))))
                  (.put events event)))]
     (swap! state assoc-in [:prompts key] put!)
     (let [topics ["assistant/delta" "assistant/message" "turn/ended"]
           subscribed (request! connection "subscribe" {:topics topics})
           prompted (request! connection "prompt" (assoc params :message message))]
       (run-thread! "prompt"
                    (fn []
                      @subscribed
                      (let [{:keys [ok data] :as answer} @prompted
                            turn-id (:turn-id data)
                            end (cond (not ok) answer
                                      turn-id (turn-end connection events turn-id on-delta)
                                      :else {:ok true :text "" :outcome "command"})]
                        (swap! state update :prompts dissoc key)
                        (deliver result end)))))
     result)))

;; Questions

(defn approve
  "The answer of :on-question that allows a call, for \"once\", for the \"session\", or by the suggested \"rule\"."
  ([question] (approve question "once"))
  ([question scope]
   {:status "accepted"
    :value (cond-> {:outcome "approve" :scope scope}
             (= "rule" scope) (assoc :rule (get-in question [:payload :suggested-rule])))}))

(defn deny
  "The answer that refuses a call. The model reads the note."
  ([question] (deny question nil))
  ([_ note] (cond-> {:status "accepted" :value {:outcome "deny" :scope "once"}} note (assoc :note note))))

(defn accept
  "Any answer by its value: {:ok true}, {:index 0}, {:text \"…\"}."
  [_ value]
  {:status "accepted" :value value})

(defn cancel
  "Gives no answer: what asked goes on without one."
  [_]
  {:status "cancelled"})

(defn- answer-questions! [{:keys [^LinkedBlockingQueue questions options] :as connection}]
  (loop []
    (let [question (.take questions)]
      (when-not (= ::end question)
        (let [respond #(deref (request! connection "interaction_respond"
                                        (assoc % :interaction-id (:interaction-id question)))
                              timeout-ms nil)
              failed (fn [why]
                       (tap> {:edn-bridge/question-failed why :question question})
                       ;; The question must not stay open: its turn would wait for ever.
                       (respond (cancel question)))]
          (try
            (when-let [answer ((:on-question options) question)]
              (let [{:keys [code] :as refused} (respond answer)]
                (when (contains? #{"request/invalid-params" "client/invalid"} code)
                  (failed refused))))
            ;; Also what is no exception, such as that of `assert`.
            (catch Throwable error
              (failed error))))
        (recur)))))

;; Where a bridge is found

(defn- open! [in out process hang-up {:keys [client-name features on-question] :as options}]
  (let [connection (->Connection (atom {}) (BufferedInputStream. in) out process hang-up
                                 (LinkedBlockingQueue. (int max-queued)) (LinkedBlockingQueue. (int max-questions))
                                 options (promise))]
    (run-thread! "reader" #(read-lines! connection))
    (run-thread! "handlers" #(call-handlers! connection))
    (try
      (let [info {:name (or client-name "clojure") :version "1" :protocol-version "1.0"
                  :features (cond-> (vec features) on-question (conj "interactor"))}]
        (deliver (:server-info connection) (:server-info (ask connection "handshake" {:client-info info}))))
      (when on-question
        (run-thread! "questions" #(answer-questions! connection))
        (ask connection "subscribe" {:topics ["interaction/requested"]}))
      connection
      (catch Exception error
        (close! connection)
        (throw error)))))

(defn connect
  "Starts a bridge and shakes hands. Returns a connection, which `with-open` and `close!` close. Options:

  :command      the program, [\"edn-bridge\" \"serve\"] by default
  :dir          the folder of the project
  :env          further environment variables, a map of strings
  :on-question  a function of a question {:kind :payload :interaction-id …} that returns `approve`, `deny`, `accept`,
                `cancel`, or nil to leave it to somebody else. Without it the bridge asks this client nothing.
  :client-name, :features  for the handshake"
  ([] (connect {}))
  ([{:keys [command dir env] :or {command ["edn-bridge" "serve"]} :as options}]
   (let [builder (doto (ProcessBuilder. ^java.util.List (vec command))
                   (.redirectError java.lang.ProcessBuilder$Redirect/INHERIT))]
     (when dir (.directory builder (io/file dir)))
     (doseq [[name value] env]
       (.put (.environment builder) name value))
     (let [process (.start builder)]
       (open! (.getInputStream process) (.getOutputStream process) process (fn []) options)))))

(defn sockets
  "The sockets of bridges of a folder, newest first (docs/protocol.md#attaching). Some may be of dead processes.
  Options: :dir and :state-dir, which are found as the program finds them."
  [{:keys [dir state-dir]}]
  (let [home (or (not-empty (System/getenv "XDG_STATE_HOME"))
                 (str (System/getProperty "user.home") "/.local/state"))
        state-dir (or state-dir (System/getenv "EDN_BRIDGE_STATE_DIR") (str home "/edn-bridge"))
        folder (.getCanonicalPath (io/file (or dir ".")))
        digest (.digest (MessageDigest/getInstance "SHA-256") (.getBytes folder StandardCharsets/UTF_8))
        prefix (str (subs (str/join (map #(format "%02x" %) digest)) 0 12) "-")
        fits? #(and (str/starts-with? % prefix) (str/ends-with? % ".sock") (not (str/ends-with? % ".control.sock")))]
    (->> (.listFiles (io/file state-dir "run"))
         (filter (fn [^java.io.File file] (fits? (.getName file))))
         (sort-by (fn [^java.io.File file] (- (.lastModified file))))
         (map str))))

(defn- channel-streams
  "Streams over a channel. Those of java.nio.channels.Channels would make a write wait for a read before Java 19."
  [^SocketChannel channel]
  [(proxy [InputStream] []
     (read
       ([] (throw (UnsupportedOperationException.)))
       ([bytes] (.read channel (ByteBuffer/wrap bytes)))
       ([bytes offset length] (.read channel (ByteBuffer/wrap bytes offset length)))))
   (proxy [OutputStream] []
     (write
       ([bytes] (let [buffer (ByteBuffer/wrap bytes)]
                  (while (.hasRemaining buffer) (.write channel buffer))))
       ([bytes offset length] (let [buffer (ByteBuffer/wrap bytes offset length)]
                                (while (.hasRemaining buffer) (.write channel buffer)))))
     (close [] (.close channel)))])

(defn attach
  "Connects to a bridge that runs: the socket at :path, or the newest one of the folder :dir, in :state-dir. Needs Java
  16. The connection begins with a session of its own; (ask bridge \"switch_session\" {:session-id …}) shows another one.
  Further options are those of `connect`."
  [{:keys [path dir] :as options}]
  (let [dial (fn [path]
               (try
                 ;; The class is not there before Java 16; the rest of this file does not need it.
                 (SocketChannel/open ^java.net.SocketAddress
                                     (clojure.lang.Reflector/invokeStaticMethod
                                      "java.net.UnixDomainSocketAddress" "of" (object-array [path])))
                 (catch IOException _ nil)))
        channel (some dial (if path [path] (sockets options)))]
    (when-not channel
      (let [place (if path (str "at " path) (str "for " (.getCanonicalPath (io/file (or dir ".")))))]
        (throw (ex-info (str "No bridge runs " place ".") {:code "client/closed"}))))
    (let [[in out] (channel-streams channel)]
      (open! in out nil #(.close ^SocketChannel channel) options))))

(defn server-info
  "What the bridge says of itself: its version, its features, and the :session-id of the session that is shown first."
  [connection]
  (deref (:server-info connection) 0 nil))
