;; Reads cases from standard input, one a line, each the hexadecimal digits of a UTF-8 text, and answers
;; each with one line: the forms that clojure.edn reads from it, in the notation of oracle.rs, or
;; "reject" and why.
(require '[clojure.edn :as edn] '[clojure.string :as string])

(defn hex ^String [^String s]
  (let [out (StringBuilder.)]
    (doseq [b (.getBytes s "UTF-16BE")] (.append out (format "%02x" b)))
    (str out)))

(defn unhex ^String [^String line]
  (let [n (quot (count line) 2) bytes (byte-array n)]
    (dotimes [i n]
      (aset bytes i (unchecked-byte (Integer/parseInt (subs line (* 2 i) (+ 2 (* 2 i))) 16))))
    (String. bytes "UTF-8")))

(defn plain [^BigDecimal d]
  (if (zero? (.signum d))
    "0e0"
    (let [d (.stripTrailingZeros d)] (str (.unscaledValue d) "e" (- (.scale d))))))

(declare dump)
(defn join [xs] (string/join " " xs))

(defn dump [x]
  (cond
    (nil? x) "nil"
    (true? x) "true"
    (false? x) "false"
    (instance? Long x) (str "i" x)
    (instance? clojure.lang.BigInt x) (str "n" x)
    (instance? Double x) (if (Double/isNaN x) "fNaN" (format "f%x" (Double/doubleToLongBits x)))
    (instance? BigDecimal x) (str "d" (plain x))
    (ratio? x) (str "r" (numerator x) "/" (denominator x))
    (char? x) (str "c" (hex (str x)))
    (string? x) (str "s" (hex x))
    (keyword? x) (str "k" (hex (subs (str x) 1)))
    (symbol? x) (str "y" (hex (str x)))
    (instance? java.util.Date x) (str "t" (.getTime ^java.util.Date x))
    (uuid? x) (str "u" x)
    (tagged-literal? x) (str "#" (hex (str (:tag x))) " " (dump (:form x)))
    (vector? x) (str "[" (join (map dump x)) "]")
    (map? x) (str "{" (join (sort (map (fn [[k v]] (str (dump k) " " (dump v))) x))) "}")
    (set? x) (str "#{" (join (sort (map dump x))) "}")
    (seq? x) (str "(" (join (map dump x)) ")")
    :else (throw (IllegalStateException. (str "cannot dump " (class x))))))

(defn forms [^String text]
  (let [in (java.io.PushbackReader. (java.io.StringReader. text)) end (Object.)]
    (loop [out []]
      (let [form (edn/read {:eof end :default tagged-literal} in)]
        (if (identical? form end) (join out) (recur (conj out (dump form))))))))

(let [in (java.io.BufferedReader. *in*) out (java.io.BufferedWriter. *out*)]
  (loop []
    (when-let [line (.readLine in)]
      (.write out ^String (try (forms (unhex line))
                               (catch IllegalStateException e (str "broken " (.getMessage e)))
                               (catch Throwable e (str "reject " (string/replace (str (.getMessage e)) #"\s+" " ")))))
      (.write out "\n")
      (recur)))
  (.flush out))
