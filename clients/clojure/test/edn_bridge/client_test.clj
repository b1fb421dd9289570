(ns edn-bridge.client-test
  "Tests with the real program and a scripted model. Nothing sleeps: each test waits, with a deadline.

    EDN_BRIDGE_PROGRAM=/path/to/edn-bridge clojure -cp src:test -m edn-bridge.client-test"
  (:require [clojure.edn :as edn]
            [clojure.java.io :as io]
            [clojure.java.shell :refer [sh]]
            [clojure.string :as str]
            [clojure.test :refer [deftest is run-tests testing use-fixtures]]
            [edn-bridge.client :as bridge])
  (:import (java.util.concurrent LinkedBlockingQueue TimeUnit)))

(def root (-> (io/resource "edn_bridge/client_test.clj") io/file .getCanonicalFile
              (->> (iterate #(.getParentFile ^java.io.File %))) (nth 5)))
(def program (or (System/getenv "EDN_BRIDGE_PROGRAM") (str (io/file root "target/debug/edn-bridge"))))
(def patience "The deadline of every wait, in ms. Generous, because a loaded machine is slow, not wrong." 60000)

(def ^:dynamic *folder* nil)

(defn delete! [^java.io.File file]
  (run! delete! (.listFiles file))
  (.delete file))

(use-fixtures :each
  (fn [run]
    (let [folder (.toFile (java.nio.file.Files/createTempDirectory
                           "edn-bridge" (make-array java.nio.file.attribute.FileAttribute 0)))]
      (binding [*folder* (.getCanonicalFile folder)]
        (.mkdir (io/file *folder* "project"))
        (try (run) (finally (delete! folder)))))))

(defn project [] (io/file *folder* "project"))

(defn started
  "A bridge of the test's folder, with a script of the model. A wrapper is a command that runs the program."
  [script & {:keys [wrapper] :as options}]
  (spit (io/file *folder* "script.edn") script)
  (bridge/connect
   (merge {:command (into (vec wrapper)
                          [program "serve" "--no-daemon" "--provider" "scripted"
                           "--script" (str (io/file *folder* "script.edn"))
                           "--state-dir" (str (io/file *folder* "state"))])
           :dir (project)
           :env {"XDG_CONFIG_HOME" (str (io/file *folder* "config"))}}
          (dissoc options :wrapper))))

(defn got [promise] (deref promise patience ::late))

(defn events
  "Subscribes, and returns a function that waits for the next event."
  [connection & topics]
  (let [queue (LinkedBlockingQueue.)]
    (bridge/subscribe! connection topics #(.put queue %))
    #(or (.poll queue patience TimeUnit/MILLISECONDS) (throw (ex-info "waited in vain" {})))))

(defn tapped
  "Calls run with a function that waits for the next value of tap> that fits."
  [fits run]
  (let [queue (LinkedBlockingQueue.)
        put #(when (fits %) (.put queue %))]
    (add-tap put)
    (try (run #(.poll queue patience TimeUnit/MILLISECONDS)) (finally (remove-tap put)))))

(defn code-of [run]
  (try (run) nil (catch clojure.lang.ExceptionInfo error (:code (ex-data error)))))

(def hello "{:turns [{:steps [{:delta \"Hello \"} {:delta \"from the bridge.\"}] :usage {:input 7 :output 5}}]}")
(def writes "{:turns [{:steps [{:delta \"I write.\"} {:tool-call {:id \"c\" :name \"write\" :arguments {:path \"a.txt\"
              :content \"one\\n\"}}}]} {:steps [{:delta \"Done.\"}]}] :then :cycle}")
(def hangs "{:turns [{:steps [{:delta \"Wait\"} {:sleep-ms 3600000}]}]}")
(def fails "{:turns [{:steps [{:error {:kind :fatal :message \"out of order\"}}]}]}")

;; EDN

(defn canonical
  "What the program makes of each line: its canonical form, or nil if the line is not one form."
  [lines]
  ;; A mark behind each line tells apart an empty line and one of two forms.
  (let [{:keys [exit out]} (sh program "edn" :in (str/join (map #(str % "\n:mark\n") lines)))
        found (str/split out #"\n")]
    (cond (and (zero? exit) (= (* 2 (count lines)) (count found)) (= #{":mark"} (set (take-nth 2 (rest found)))))
          (take-nth 2 found)
          (= 1 (count lines)) [nil]
          :else (mapcat canonical (split-at (quot (count lines) 2) lines)))))

(deftest transcripts-read-and-written-agree
  (let [files (filter #(str/ends-with? (.getName ^java.io.File %) ".edn")
                      (.listFiles (io/file root "tests/transcripts")))]
    (is (seq files))
    (doseq [file files
            ;; Only the line end ends a line: a text may have other separators.
            :let [lines (filter #(re-find #"^[<>] " %) (str/split (slurp file) #"\n"))
                  texts (map #(subs % 2) lines)
                  pairs (map vector texts (canonical texts))]]
      (testing (str file)
        (doseq [[text expected] pairs
                :when (nil? expected)]
          (is (thrown? RuntimeException (bridge/read-form text)) text))
        (is (= (keep second pairs)
               (canonical (for [[text expected] pairs :when expected]
                            (bridge/write-form (bridge/read-form text))))))))))

(deftest text-that-is-not-one-form-is-refused
  (doseq [text ["" "1 2" "[1" "{:a}" "#_1" "\"a"]]
    (is (thrown? RuntimeException (bridge/read-form text)) text)))

(deftest value-without-form-is-refused
  (doseq [value [inc (keyword "a b") (Object.) (symbol "a\nb")]]
    (is (= "client/invalid" (code-of #(bridge/write-form {:a value}))))))

(deftest printing-options-do-not-change-lines
  (binding [*print-length* 1 *print-level* 1 *print-namespace-maps* true *print-meta* true]
    (is (= "{:a/b [1 2 [3 [4]]], :a/c \"x\\ny\"}" (bridge/write-form {:a/b ^:m [1 2 [3 [4]]] :a/c "x\ny"})))))

;; Requests

(deftest request-keeps-its-promise
  (with-open [b (started hello)]
    (is (= {:ok true :data true} (update (got (bridge/request! b "ping")) :data :pong)))
    (is (= (:session-id (bridge/server-info b)) (:session-id (:state (bridge/ask b "get_state")))))))

(deftest refusal-has-the-code-of-the-wire
  (with-open [b (started hello)]
    (doseq [[code op params] [["request/op-not-supported" "no_such_op" {}]
                              ["request/invalid-params" "set_mode" {:mode "reckless"}]
                              ["request/not-found" "switch_session" {:session-id "nobody"}]
                              ["request/unknown-command" "command" {:text "/statsu"}]
                              ["client/invalid" "ping" {:a inc}]]]
      (let [answer (got (bridge/request! b op params))]
        (is (= [false code op] ((juxt :ok :code :op) answer)))
        (is (= code (code-of #(bridge/ask b op params))))))
    (is (some #{"status"} (get-in (got (bridge/request! b "command" {:text "/statsu"})) [:data :nearest])))))

(deftest ask-beyond-its-time-throws
  (with-open [b (started hello :wrapper ["sh" "-c" "\"$@\" | sed -u '/:op \"ping\"/d'" "sh"])]
    (is (= "client/timeout" (code-of #(bridge/ask b "ping" {} 1))))))

(deftest query-takes-and-returns-data
  (with-open [b (started hello)]
    (is (= {:psi.agent-session/phase :idle [:psi.op/name "ping"] {:psi.op/doc "Answers at once."}}
           (bridge/query b [:psi.agent-session/phase {[:psi.op/name "ping"] [:psi.op/doc]}])))
    (is (= "runtime/query-failed" (code-of #(bridge/query b [:no/attribute]))))
    (is (= {} (bridge/query b "[:no/attribute]" {:strict false})))))

;; Turns and events

(deftest prompt-streams-and-keeps-its-promise
  (with-open [b (started hello)]
    (let [pieces (atom [])
          answer (got (bridge/prompt! b "Hi." {:on-delta #(swap! pieces conj %)}))]
      (is (= [true "Hello from the bridge." "completed" 5]
             [(:ok answer) (:text answer) (:outcome answer) (get-in answer [:usage :output])]))
      (is (= (:text answer) (str/join @pieces))))))

(deftest prompt-that-fails-says-why
  (with-open [b (started fails)]
    (let [answer (got (bridge/prompt! b "Hi."))]
      (is (= [false "failed"] ((juxt :ok :outcome) answer)))
      (is (str/includes? (:error answer) "out of order")))))

(deftest prompt-during-a-turn-is-refused
  (with-open [b (started hangs)]
    (let [next-event (events b "assistant/delta")
          first-answer (bridge/prompt! b "Hi.")]
      (next-event)
      (is (= [false "request/session-not-idle" true]
             ((juxt :ok :code :retryable) (got (bridge/prompt! b "Again.")))))
      (bridge/ask b "abort")
      (is (= [false "aborted"] ((juxt :ok :outcome) (got first-answer)))))))

(deftest command-as-prompt-begins-no-turn
  (with-open [b (started hello)]
    (is (= "command" (:outcome (got (bridge/prompt! b "/status")))))))

(deftest tap-is-a-handler
  (with-open [b (started hello)]
    (tapped #(= "turn/ended" (:topic %))
            (fn [next-tap]
              (bridge/subscribe! b ["turn/ended"] tap>)
              (bridge/prompt! b "Hi.")
              (is (= "completed" (get-in (next-tap) [:data :outcome])))))))

(deftest handler-that-throws-is-told-to-tap
  (with-open [b (started hello)]
    (tapped :edn-bridge/handler-failed
            (fn [next-tap]
              (bridge/subscribe! b ["turn/ended"] (fn [_] (throw (ex-info "no idea" {}))))
              (is (:ok (got (bridge/prompt! b "Hi."))))
              (is (= "no idea" (ex-message (:edn-bridge/handler-failed (next-tap)))))))))

(deftest handler-whose-assertion-fails-runs-again
  (with-open [b (started hello)]
    (tapped :edn-bridge/handler-failed
            (fn [next-tap]
              (bridge/subscribe! b ["turn/ended"] (fn [event] (assert (nil? event))))
              (dotimes [_ 2]
                (is (:ok (got (bridge/prompt! b "Hi." {:on-delta #(assert (nil? %))}))))
                ;; Two pieces and the end.
                (dotimes [_ 3]
                  (is (instance? AssertionError (:edn-bridge/handler-failed (next-tap))))))))))

(deftest handler-may-ask-and-wait
  (with-open [b (started hello)]
    (let [state (promise)]
      (bridge/subscribe! b ["turn/ended"] (fn [_] (deliver state (bridge/ask b "get_state"))))
      (bridge/prompt! b "Hi.")
      (is (= "idle" (get-in (got state) [:state :phase]))))))

(deftest handler-may-prompt-and-wait
  (with-open [b (started hello)]
    (let [pieces (atom [])
          answer (promise)
          stop (promise)]
      (deliver stop (bridge/subscribe! b ["turn/ended"]
                                       (fn [_]
                                         (@stop)
                                         (deliver answer (got (bridge/prompt! b "Again."
                                                                              {:on-delta #(swap! pieces conj %)}))))))
      (bridge/prompt! b "Hi.")
      (is (= "Hello from the bridge." (:text (got answer)) (str/join @pieces))))))

(deftest prompt-ends-while-a-handler-waits
  (with-redefs [bridge/max-queued 2]
    (with-open [b (started hello)]
      (let [go-on (promise)]
        (bridge/subscribe! b ["turn/stage"] (fn [_] (deref go-on patience nil)))
        (is (= "Hello from the bridge." (:text (got (bridge/prompt! b "Hi.")))))
        (deliver go-on true)))))

(deftest subscription-that-was-ended-hears-nothing
  (with-open [b (started hello)]
    (let [heard (LinkedBlockingQueue.)
          stop (bridge/subscribe! b ["turn/ended"] #(.put heard %))
          next-event (events b "turn/ended")]
      (bridge/prompt! b "Hi.")
      (next-event)
      (stop)
      (bridge/prompt! b "Again.")
      (next-event)
      (is (= 1 (.size heard))))))

(deftest unknown-topic-throws
  (with-open [b (started hello)]
    (is (= "client/invalid" (code-of #(bridge/subscribe! b ["no/topic"] identity))))))

(deftest lost-events-are-counted-at-their-place
  ;; The real bridge, behind a line that loses two events.
  (with-open [b (started hello :wrapper ["sh" "-c" "\"$@\" | sed -u '/ :seq [23] /d'" "sh"])]
    (let [next-event (events b "session/updated" "turn/stage")]
      (bridge/prompt! b "Hi.")
      (is (= [[1 0] [4 2]] (repeatedly 2 #((juxt :seq :missed) (next-event)))))
      (is (= 0 (:missed (next-event)))))))

(deftest handlers-too-far-behind-are-told
  (with-redefs [bridge/max-queued 2]
    (with-open [b (started hello)]
      (let [go-on (promise)
            heard (LinkedBlockingQueue.)]
        (bridge/subscribe! b ["turn/stage" "turn/ended" "session/updated"]
                           (fn [event] (deref go-on patience nil) (.put heard event)))
        (bridge/ask b "prompt" {:message "Hi."})
        (loop [] (when-not (= "idle" (get-in (bridge/ask b "get_state") [:state :phase])) (recur)))
        ;; One event is at the handler and two are queued. What was lost is told with one of them or with the next.
        (deliver go-on true)
        (let [next-event #(.poll heard patience TimeUnit/MILLISECONDS)
              held (vec (repeatedly 3 next-event))]
          (bridge/ask b "set_session_name" {:name "x"})
          (is (some pos? (keep :missed (conj held (next-event))))))))))

;; Questions

(deftest approved-call-runs
  (let [asked (atom [])]
    (with-open [b (started writes :on-question #(do (swap! asked conj %) (bridge/approve %)))]
      (is (= "Done." (:text (got (bridge/prompt! b "Write.")))))
      (is (= "one\n" (slurp (io/file (project) "a.txt"))))
      (is (= [["approve" "write"]] (map (juxt :kind #(get-in % [:payload :tool])) @asked)))
      (is (str/includes? (get-in (first @asked) [:payload :diff]) "+one")))))

(deftest denied-call-tells-the-model-why
  (with-open [b (started writes :on-question #(bridge/deny % "not that file"))]
    (let [next-event (events b "tool/result")]
      (got (bridge/prompt! b "Write."))
      (is (str/includes? (get-in (next-event) [:data :result-text]) "not that file"))
      (is (not (.exists (io/file (project) "a.txt")))))))

(deftest call-allowed-by-rule-is-asked-once
  (let [asked (atom 0)]
    (with-open [b (started writes :on-question #(do (swap! asked inc) (bridge/approve % "rule")))]
      (is (:ok (got (bridge/prompt! b "Write."))))
      (is (:ok (got (bridge/prompt! b "Write again."))))
      (is (= 1 @asked)))))

(deftest callback-that-throws-cancels-the-question
  (tapped :edn-bridge/question-failed
          (fn [next-tap]
            (with-open [b (started writes :on-question (fn [_] (throw (ex-info "no idea" {}))))]
              (is (not= ::late (got (bridge/prompt! b "Write."))))
              (is (= "no idea" (ex-message (:edn-bridge/question-failed (next-tap)))))
              (is (not (.exists (io/file (project) "a.txt"))))))))

(deftest callback-whose-assertion-fails-cancels-the-question
  (tapped :edn-bridge/question-failed
          (fn [next-tap]
            (with-open [b (started writes :on-question #(assert (nil? %)))]
              (is (not= ::late (got (bridge/prompt! b "Write."))))
              (is (instance? AssertionError (:edn-bridge/question-failed (next-tap))))
              ;; The thread goes on.
              (is (not= ::late (got (bridge/prompt! b "Write."))))))))

(deftest answer-of-wrong-shape-cancels-the-question
  (doseq [[answer told] [[{:status "accepted" :value {:outcome "perhaps"}} #(= "request/invalid-params" (:code %))]
                         [{:status "accepted" :value inc} #(= "client/invalid" (:code %))]
                         [true #(instance? ClassCastException %)]]]
    (tapped :edn-bridge/question-failed
            (fn [next-tap]
              (with-open [b (started writes :on-question (constantly answer))]
                (is (not= ::late (got (bridge/prompt! b "Write."))))
                (is (told (:edn-bridge/question-failed (next-tap)))))))))

(deftest turn-fails-where-nobody-can-be-asked
  (with-open [b (started writes)]
    (is (str/includes? (:error (got (bridge/prompt! b "Write."))) "permission-required"))))

;; Ends and sockets

(defn attached
  "Another client of the bridge, whose socket may come a little after the first answer."
  []
  (let [deadline (+ (System/currentTimeMillis) patience)]
    (loop []
      (or (try (bridge/attach {:dir (project) :state-dir (io/file *folder* "state")})
               (catch clojure.lang.ExceptionInfo error
                 (when (< deadline (System/currentTimeMillis)) (throw error))))
          (recur)))))

(deftest attached-client-shares-the-session
  (with-open [first-client (started hello)
              second-client (attached)]
    (let [session (:session-id (bridge/server-info first-client))
          next-event (events first-client "user/message")]
      (bridge/ask second-client "switch_session" {:session-id session})
      (is (:ok (got (bridge/prompt! second-client "From the other one."))))
      (is (= "From the other one." (get-in (next-event) [:data :text])))
      (bridge/close! second-client)
      (is (:pong (bridge/ask first-client "ping"))))))

(deftest attach-without-a-bridge-says-so
  (is (= "client/closed" (code-of #(bridge/attach {:dir (project) :state-dir (io/file *folder* "state")})))))

(deftest killed-bridge-keeps-every-promise
  (with-open [b (started hangs)]
    (let [next-event (events b "assistant/delta")
          answer (bridge/prompt! b "Hi.")]
      (next-event)
      (.waitFor (.destroyForcibly ^Process (:process b)))
      (is (= [false "client/closed"] ((juxt :ok :code) (got answer))))
      (is (str/includes? (:message (got (bridge/request! b "ping"))) "exit status 137")))))

(deftest closing-keeps-open-promises
  (with-open [b (started hello :wrapper ["sh" "-c" "\"$@\" | sed -u '/:op \"ping\"/d'" "sh"])]
    (let [answer (bridge/request! b "ping")]
      (bridge/close! b)
      (is (= [false "client/closed"] ((juxt :ok :code) (got answer)))))))

(deftest program-without-handshake-is-ended
  (is (= "client/closed" (code-of #(bridge/connect {:command ["true"]})))))

(deftest deps-name-folders-that-exist
  (let [{:keys [paths aliases]} (edn/read-string (slurp (io/file root "clients/clojure/deps.edn")))]
    (doseq [path (concat paths (:extra-paths (:test aliases)))]
      (is (.isDirectory (io/file root "clients/clojure" path)) path))
    (is (= ["-m" "edn-bridge.client-test"] (:main-opts (:test aliases))))))

(defn -main [& _]
  (let [{:keys [fail error test]} (run-tests 'edn-bridge.client-test)]
    (println (format "Ran %d tests" test))
    (System/exit (if (and (pos? test) (zero? (+ fail error))) 0 1))))
