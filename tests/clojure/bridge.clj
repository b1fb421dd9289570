;; edn-bridge from Clojure, with nothing but clojure.edn: start it, shake hands, ask, prompt, read events.
;; In a REPL: load this file, (def b (start ["edn-bridge" "serve"])), then (ask b "ping" {}).
(require '[clojure.edn :as edn])

(defn start [command]
  (let [process (.start (doto (ProcessBuilder. ^java.util.List command)
                          (.redirectError java.lang.ProcessBuilder$Redirect/INHERIT)))]
    {:process process
     :in (java.io.PushbackReader. (java.io.InputStreamReader. (.getInputStream process) "UTF-8"))
     :out (java.io.OutputStreamWriter. (.getOutputStream process) "UTF-8")
     :ids (atom 0)
     :events (atom [])}))

(defn frame [b] (edn/read {:eof nil} (:in b)))

(defn ask [b op params]
  (let [id (str (swap! (:ids b) inc))]
    (doto (:out b) (.write (str (pr-str {:id id :kind :request :op op :params params}) "\n")) .flush)
    (loop []
      (let [f (frame b)]
        (cond (nil? f) (throw (ex-info "The bridge has ended." {}))
              (= :event (:kind f)) (do (swap! (:events b) conj f) (recur))
              (= :error (:kind f)) (throw (ex-info (:error-message f) f))
              :else (:data f))))))

(defn query [b q] (:result (ask b "query_eql" {:query (pr-str q)})))

(defn event [b topic]
  (or (first (filter #(= topic (:event %)) @(:events b)))
      (loop [] (let [f (frame b)] (if (or (nil? f) (= topic (:event f))) f (recur))))))

;; As a script: clojure bridge.clj edn-bridge serve …
(when-let [command (seq *command-line-args*)]
  (let [b (start (vec command))]
    (ask b "handshake" {:client-info {:name "clojure" :version "1" :protocol-version "1.0"}})
    (ask b "subscribe" {:topics ["assistant/message"]})
    (prn (query b [:psi.agent-session/phase {[:psi.op/name "ping"] [:psi.op/doc]}]))
    (ask b "prompt" {:message "hello"})
    (let [message (event b "assistant/message")]
      (prn (get-in message [:data :text] (get-in message [:payload :text]))))
    (.close (:out b))
    (System/exit (.waitFor (:process b)))))
