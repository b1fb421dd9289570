;;; edn-bridge-said-tests.el --- Tests of messages on their way  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)
(require 'edn-bridge-live-tests)

(defun edn-bridge-said-tests-say (text command)
  "Say TEXT by COMMAND."
  (edn-bridge-transcript-set-draft text)
  (goto-char (point-max))
  (funcall command))

(defun edn-bridge-said-tests-id (sent)
  "Return the id of the last of the requests SENT."
  (plist-get (car sent) :id))

(defun edn-bridge-said-tests-session (conn running count)
  "Tell CONN whether a turn is RUNNING, and that COUNT messages wait."
  (edn-bridge-test-event conn "session/updated" :session-id "s1"
                         :is-streaming (if running t :false)
                         :pending-message-count count))

(defun edn-bridge-said-tests-message (entry text &rest more)
  "Return a message of a user with ENTRY, TEXT and MORE."
  (append (list :session-id "s1" :role "user" :entry-id entry
                :content (vector (list :type :text :text text)))
          more))

(ert-deftest edn-bridge-said-own-message-is-shown-once ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-said-tests-say "Hi" #'edn-bridge-input-send)
    (should (equal (edn-bridge-test-transcript) "You\nHi\n"))
    (apply #'edn-bridge-test-caused conn (edn-bridge-said-tests-id sent)
           "user/message"
           (edn-bridge-said-tests-message
            "e1" "Hi" :from '(:kind "client" :connection 1 :client "emacs")))
    (should (equal (edn-bridge-test-transcript) "You\nHi\n"))
    (should (equal (get-text-property (point-min) 'edn-bridge-entry) "e1"))
    (should-not edn-bridge-said--pending)))

(ert-deftest edn-bridge-said-others-messages-tell-their-sender ()
  (pcase-dolist
      (`(,heading . ,more)
       '(("From repl" :from (:kind "client" :connection 2 :client "repl"))
         ("From another client" :from (:kind "client" :connection 2))
         ("From the bridge" :from (:kind "runtime"))
         ("From tests passed" :sender "tests passed"
          :from (:kind "client" :connection 2 :client "repl"))
         ("From a\\u{202E}b\\n" :sender "a\u202Eb\n" :from (:kind "runtime"))
         ("You" :from (:kind "earlier"))))
    (edn-bridge-test-with-chat (conn _sent)
      (apply #'edn-bridge-test-event conn "user/message"
             (append (edn-bridge-said-tests-message "e1" "Hi") more))
      (let ((text (concat heading "\nHi\n")))
        (should (equal (edn-bridge-test-transcript) text))
        (should (equal (mapcar #'car (funcall imenu-create-index-function))
                       '("Hi")))
        ;; The journal does not tell, and the chat has not forgotten.
        (edn-bridge-test-event
         conn "session/rehydrated" :session-id "s1"
         :messages [(:id "e1" :role "user" :content "Hi")])
        (should (equal (edn-bridge-test-transcript) text)))))
  ;; Where the journal knows, it is asked.
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event
     conn "session/rehydrated" :session-id "s1"
     :messages [(:id "e1" :role "user" :content "Hi" :sender "cron")])
    (should (equal (edn-bridge-test-transcript) "From cron\nHi\n"))))

(ert-deftest edn-bridge-said-same-words-of-another-are-another-message ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-said-tests-say "Go on" #'edn-bridge-input-send)
    (apply #'edn-bridge-test-event conn "user/message"
           (edn-bridge-said-tests-message
            "e1" "Go on" :from '(:kind "client" :client "repl")))
    (edn-bridge-test-event conn "assistant/message" :session-id "s1"
                           :role "assistant" :entry-id "e2" :content "One.")
    ;; Ours was delivered behind that.
    (apply #'edn-bridge-test-caused conn (edn-bridge-said-tests-id sent)
           "user/message"
           (edn-bridge-said-tests-message
            "e3" "Go on" :from '(:kind "client" :client "emacs")))
    (should (equal (edn-bridge-test-transcript)
                   "From repl\nGo on\n\nAssistant\nOne.\n\nYou\nGo on\n"))))

(ert-deftest edn-bridge-said-refused-message-goes-back-to-the-draft ()
  (edn-bridge-test-with-chat (conn sent)
    (cl-flet ((refuse ()
                (edn-bridge-rpc--dispatch-frame
                 conn (list :kind :error :id (edn-bridge-said-tests-id sent)
                            :op "prompt" :error-code "request/failed"
                            :error-message "No"))))
      (edn-bridge-said-tests-say "Hi" #'edn-bridge-input-send)
      (refuse)
      (should (equal (edn-bridge-transcript-draft) "Hi"))
      (should (equal (edn-bridge-test-transcript) "No\n"))
      ;; Where there is another draft it stays in sight.
      (edn-bridge-said-tests-say "Hi" #'edn-bridge-input-send)
      (edn-bridge-transcript-set-draft "more")
      (refuse)
      (should (equal (edn-bridge-transcript-draft) "more"))
      (should (equal (edn-bridge-test-transcript) "No\n\nYou\nHi\n\nNo\n")))))

(ert-deftest edn-bridge-said-prompt-in-another-turn-waits ()
  (pcase-dolist (`(,command ,op) '((edn-bridge-input-send "steer")
                                   (edn-bridge-input-queue "follow_up")))
    (edn-bridge-test-with-chat (conn sent)
      (edn-bridge-said-tests-say "Hi" command)
      (should (equal (plist-get (car sent) :op) "prompt"))
      (edn-bridge-rpc--dispatch-frame
       conn (list :kind :error :id (edn-bridge-said-tests-id sent)
                  :op "prompt" :error-code "request/session-not-idle"
                  :error-message "A turn is running"))
      (should (equal (plist-get (car sent) :op) op))
      (should (equal (edn-bridge-test-transcript) ""))
      (should (equal (edn-bridge-said-tests--waiting) '("Hi")))
      (should (equal (edn-bridge-transcript-draft) ""))
      (apply #'edn-bridge-test-caused conn (edn-bridge-said-tests-id sent)
             "user/message" (edn-bridge-said-tests-message "e1" "Hi"))
      (should (equal (edn-bridge-test-transcript) "You\nHi\n"))
      (should-not (edn-bridge-said-tests--waiting)))))

(ert-deftest edn-bridge-said-command-gives-way-to-its-message ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-said-tests-say "/explain x" #'edn-bridge-input-send)
    (should (equal (edn-bridge-test-transcript) "You\n/explain x\n"))
    (apply #'edn-bridge-test-caused conn (edn-bridge-said-tests-id sent)
           "user/message"
           (edn-bridge-said-tests-message "e1" "Explain x, please."))
    (should (equal (edn-bridge-test-transcript) "You\nExplain x, please.\n"))
    ;; Other commands stay.
    (edn-bridge-said-tests-say "/status" #'edn-bridge-input-send)
    (edn-bridge-test-event conn "command-result" :type "text" :message "Fine")
    (should (string-suffix-p "You\n/status\n\nFine\n"
                             (edn-bridge-test-transcript)))))

(ert-deftest edn-bridge-said-meanwhile-waits-for-its-place ()
  (edn-bridge-test-with-chat (conn sent)
    (let ((ids nil))
      (cl-flet ((answer (text &optional whole)
                  (edn-bridge-test-event conn "assistant/delta"
                                         :session-id "s1" :text text)
                  (edn-bridge-test-event
                   conn "assistant/message" :session-id "s1" :role "assistant"
                   :content (vector (list :type :text :text (or whole text)))))
                (deliver (text)
                  (apply #'edn-bridge-test-caused
                         conn (cdr (assoc text ids)) "user/message"
                         (edn-bridge-said-tests-message text text)))
                (say (text command)
                  (edn-bridge-said-tests-say text command)
                  (push (cons text (edn-bridge-said-tests-id sent)) ids)))
        (edn-bridge-said-tests-session conn t 0)
        (edn-bridge-test-event conn "assistant/delta" :session-id "s1"
                               :text "fir")
        (say "later" #'edn-bridge-input-queue)
        (edn-bridge-test-answer conn sent "follow_up" :accepted t)
        (edn-bridge-said-tests-session conn t 1)
        (say "now" #'edn-bridge-input-send)
        (should (string-search
                 "For after the turn: later\nFor the running turn: now\n"
                 (edn-bridge-transcript-footer)))
        (edn-bridge-test-answer conn sent "steer" :accepted t)
        (edn-bridge-said-tests-session conn t 2)
        (should (equal (edn-bridge-test-transcript) "Assistant\nfir"))
        (answer "st" "first")
        (deliver "now")
        (edn-bridge-said-tests-session conn t 1)
        (answer "second")
        (edn-bridge-said-tests-session conn nil 1)
        (deliver "later")
        (edn-bridge-said-tests-session conn t 0)
        (answer "third")
        (edn-bridge-said-tests-session conn nil 0)
        (should-not (string-match-p "later\\|now" (edn-bridge-transcript-footer)))
        (should (equal (edn-bridge-test-transcript)
                       (concat "Assistant\nfirst\n\nYou\nnow\n\nAssistant\n"
                               "second\n\nYou\nlater\n\nAssistant\nthird\n")))
        (goto-char (point-min))
        (search-forward "later")
        (should (equal (get-text-property (1- (point)) 'edn-bridge-entry)
                       "later"))))))

(ert-deftest edn-bridge-said-refused-text-waits-no-more ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-said-tests-session conn t 0)
    (edn-bridge-said-tests-say "now" #'edn-bridge-input-send)
    (edn-bridge-rpc--dispatch-frame
     conn (list :kind :error :id (edn-bridge-said-tests-id sent) :op "steer"
                :error-code "request/failed" :error-message "No"))
    (should-not (string-match-p "now" (edn-bridge-transcript-footer)))
    (should (equal (edn-bridge-transcript-draft) "now"))
    ;; What the bridge gives back comes back as the draft alone.
    (edn-bridge-input-send)
    (edn-bridge-test-answer conn sent "steer" :accepted t)
    (edn-bridge-input-interrupt)
    (edn-bridge-test-answer conn sent "interrupt" :dropped-steering-text "now")
    (should-not (string-match-p "now" (edn-bridge-transcript-footer)))
    (should (equal (edn-bridge-transcript-draft) "now"))
    (should (equal (edn-bridge-test-transcript) "No\n"))))

(ert-deftest edn-bridge-said-what-others-queue-is-counted ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-said-tests-session conn t 2)
    (should (string-search "2 messages from elsewhere wait"
                           (edn-bridge-transcript-footer)))
    (edn-bridge-said-tests-say "mine" #'edn-bridge-input-queue)
    (edn-bridge-test-answer conn sent "follow_up" :accepted t)
    (edn-bridge-said-tests-session conn t 2)
    (let ((above (edn-bridge-transcript-footer)))
      (should (string-search "For after the turn: mine" above))
      (should (string-search "1 message from elsewhere waits" above)))
    ;; Another client takes back what steers.
    (edn-bridge-said-tests-session conn t 0)
    (should-not (string-match-p "wait\\|mine" (edn-bridge-transcript-footer)))))

(ert-deftest edn-bridge-said-what-waits-stays-over-a-rebuild ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-said-tests-session conn t 0)
    (edn-bridge-said-tests-say "later" #'edn-bridge-input-queue)
    (edn-bridge-test-answer conn sent "follow_up" :accepted t)
    (edn-bridge-test-event conn "session/rehydrated" :session-id "s1"
                           :messages [])
    (should (string-search "later" (edn-bridge-transcript-footer)))
    (apply #'edn-bridge-test-event conn "user/message"
           (edn-bridge-said-tests-message "e1" "later"
                                          :from '(:kind "earlier")))
    (should-not (string-search "later" (edn-bridge-transcript-footer)))
    (should (equal (edn-bridge-test-transcript) "You\nlater\n"))
    ;; What the journal had already is not shown again.
    (edn-bridge-test-event
     conn "session/rehydrated" :session-id "s1"
     :messages [(:id "e1" :role "user" :content "later")
                (:id "e2" :role "assistant" :content "Yes.")])
    (apply #'edn-bridge-test-event conn "user/message"
           (edn-bridge-said-tests-message "e1" "later"))
    (edn-bridge-test-event conn "assistant/message" :session-id "s1"
                           :entry-id "e2" :role "assistant" :content "Yes.")
    (should (equal (edn-bridge-test-transcript)
                   "You\nlater\n\nAssistant\nYes.\n"))
    ;; Another session has nothing to do with it.
    (edn-bridge-said-tests-session conn t 0)
    (edn-bridge-said-tests-say "for s1" #'edn-bridge-input-queue)
    (edn-bridge-chat-turn-to "s2")
    (edn-bridge-test-event conn "session/rehydrated" :session-id "s2"
                           :messages [])
    (should-not (string-search "for s1" (edn-bridge-transcript-footer)))))

;;;; Random conversations with a bridge that is played

(cl-defstruct edn-bridge-said-tests-bridge
  "A bridge that is played: what it knows of its one session."
  conn journal queue running text thinking (count 0))

(defvar edn-bridge-said-tests--bridge nil
  "The bridge that is played.")

(defmacro edn-bridge-said-tests--slot (slot)
  "Return SLOT of the bridge that is played."
  `(,(intern (format "edn-bridge-said-tests-bridge-%s" slot))
    edn-bridge-said-tests--bridge))

(defun edn-bridge-said-tests--new-id ()
  "Return a new id."
  (format "n%d" (cl-incf (edn-bridge-said-tests--slot count))))

(defun edn-bridge-said-tests--tell (id topic &rest data)
  "Tell the chat DATA of TOPIC, caused by its request ID."
  (let ((conn (edn-bridge-said-tests--slot conn)))
    (edn-bridge-rpc--dispatch-frame
     conn (list :kind :event :id id :event topic
                :data (append (list :session-id "s1") data)))
    (when (zerop (random 3))
      (edn-bridge-chat--on-batch conn))))

(defun edn-bridge-said-tests--update ()
  "Tell the state of the session."
  (edn-bridge-said-tests--tell
   nil "session/updated"
   :is-streaming (if (edn-bridge-said-tests--slot running) t :false)
   :pending-message-count (length (edn-bridge-said-tests--slot queue))))

(defun edn-bridge-said-tests--write (message)
  "Add MESSAGE to the journal and return its id."
  (let ((id (edn-bridge-said-tests--new-id)))
    (push (append (list :id id) message)
          (edn-bridge-said-tests--slot journal))
    id))

(defun edn-bridge-said-tests--deliver (text id)
  "Deliver TEXT, which came with the chat's request ID or from another."
  (let* ((content (vector (list :type :text :text text)))
         (entry (edn-bridge-said-tests--write
                 (list :role "user" :content content))))
    (edn-bridge-said-tests--tell
     id "user/message" :role "user" :entry-id entry :content content
     :from (list :kind "client" :connection (if id 1 2)
                 :client (if id "emacs" "repl")))))

(defun edn-bridge-said-tests--take (op text id)
  "Do what a bridge does with TEXT by OP of the chat's request ID."
  (cond
   ((not (edn-bridge-said-tests--slot running))
    (setf (edn-bridge-said-tests--slot running) t)
    (edn-bridge-said-tests--deliver text id)
    (edn-bridge-said-tests--update))
   (t
    (setf (edn-bridge-said-tests--slot queue)
          (append (edn-bridge-said-tests--slot queue) (list (list op text id))))
    (edn-bridge-said-tests--update))))

(defun edn-bridge-said-tests--close (stop &optional calls)
  "End the message that streams, for the reason STOP, with tool CALLS."
  (let* ((thinking (edn-bridge-said-tests--slot thinking))
         (text (edn-bridge-said-tests--slot text))
         (content (vconcat
                   (and thinking
                        (list (list :type :thinking :text thinking)))
                   (and text (list (list :type :text :text text)))
                   calls))
         (message (list :role "assistant" :stop-reason stop
                        :content content))
         (entry (edn-bridge-said-tests--write message)))
    (setf (edn-bridge-said-tests--slot thinking) nil
          (edn-bridge-said-tests--slot text) nil)
    (apply #'edn-bridge-said-tests--tell nil "assistant/message"
           :entry-id entry message)))

(defun edn-bridge-said-tests--end (stop)
  "End the turn for the reason STOP, and begin the next where something waits."
  (edn-bridge-said-tests--close stop)
  (setf (edn-bridge-said-tests--slot running) nil)
  (edn-bridge-said-tests--update)
  (when-let ((next (pop (edn-bridge-said-tests--slot queue))))
    (setf (edn-bridge-said-tests--slot running) t)
    (edn-bridge-said-tests--deliver (nth 1 next) (nth 2 next))
    (edn-bridge-said-tests--update)))

(defun edn-bridge-said-tests--call-tool ()
  "Have the model call a tool, and take up what steers the turn."
  (let* ((id (edn-bridge-said-tests--new-id))
         (failed (zerop (random 3)))
         (call (list :type :tool-call :id id :name "bash"
                     :arguments (list :command "ls")))
         (result (list :type :text :text "one\ntwo\n")))
    (edn-bridge-said-tests--tell nil "tool/start" :tool-id id :tool-name "bash"
                                 :call-summary "bash {}" )
    (edn-bridge-said-tests--close "tool-use" (list call))
    (edn-bridge-said-tests--tell nil "tool/executing" :tool-id id
                                 :tool-name "bash" :call-summary "$ ls"
                                 :parsed-args '(:command "ls"))
    (edn-bridge-said-tests--tell nil "tool/result" :tool-id id
                                 :tool-name "bash" :call-summary "$ ls"
                                 :result-text "one\ntwo\n"
                                 :content (vector result)
                                 :is-error (if failed t :false))
    (edn-bridge-said-tests--write
     (list :role "tool" :tool-call-id id :content (vector result)
           :is-error (if failed t :false)))
    (pcase-dolist (`(,op ,text ,id) (edn-bridge-said-tests--slot queue))
      (when (equal op "steer")
        (edn-bridge-said-tests--deliver text id)))
    (setf (edn-bridge-said-tests--slot queue)
          (cl-remove "steer" (edn-bridge-said-tests--slot queue)
                     :key #'car :test #'equal))
    (edn-bridge-said-tests--update)))

(defun edn-bridge-said-tests--rebuild ()
  "Tell the chat the messages of the journal."
  (edn-bridge-said-tests--tell
   nil "session/rehydrated"
   :messages (vconcat (reverse (edn-bridge-said-tests--slot journal)))))

(defun edn-bridge-said-tests--step (sent)
  "Do something at random; SENT returns the last request of the chat."
  (let ((running (edn-bridge-said-tests--slot running))
        (word (nth (random 6) '("one " "two\n" "`three` " "**four** "
                                "```\nfive\n```\n" "six. "))))
    (pcase (random 12)
      ((or 0 1)
       (let ((text (format "mine %d" (random 3))))
         (edn-bridge-said-tests-say text (if (zerop (random 2))
                                             #'edn-bridge-input-send
                                           #'edn-bridge-input-queue))
         (let* ((request (funcall sent))
                (op (plist-get request :op)))
           (if (and running (equal op "prompt"))
               (error "A prompt in a turn")
             (edn-bridge-rpc--dispatch-frame
              (edn-bridge-said-tests--slot conn)
              (list :id (plist-get request :id) :kind :response :op op
                    :ok t :data '(:accepted t)))
             (edn-bridge-said-tests--take op text (plist-get request :id))))))
      (2 (edn-bridge-said-tests--take (if (zerop (random 2)) "steer" "follow_up")
                                      (format "mine %d" (random 3)) nil))
      ((or 3 4 5 6)
       (when running
         (setf (edn-bridge-said-tests--slot text)
               (concat (edn-bridge-said-tests--slot text) word))
         (edn-bridge-said-tests--tell nil "assistant/delta" :text word)))
      (7 (when (and running (not (edn-bridge-said-tests--slot text)))
           (setf (edn-bridge-said-tests--slot thinking)
                 (concat (edn-bridge-said-tests--slot thinking) word))
           (edn-bridge-said-tests--tell nil "assistant/thinking-delta"
                                        :text word)))
      (8 (when running (edn-bridge-said-tests--call-tool)))
      (9 (when running (edn-bridge-said-tests--end "end-turn")))
      (10 (when running (edn-bridge-said-tests--end "aborted")))
      ;; In the middle of an answer no journal has it.
      (11 (unless (or (edn-bridge-said-tests--slot text)
                      (edn-bridge-said-tests--slot thinking))
            (edn-bridge-said-tests--rebuild)
            (edn-bridge-said-tests--update))))))

(defun edn-bridge-said-tests--waiting ()
  "Return the queue of this chat, as the lines above the draft tell it."
  (let ((lines nil))
    (dolist (line (split-string (edn-bridge-transcript-footer) "\n"))
      (when (string-match "\\`For \\(?:after the\\|the running\\) turn: \\(.*\\)"
                          line)
        (push (match-string 1 line) lines)))
    (nreverse lines)))

(defun edn-bridge-said-tests--play (seed steps)
  "Play STEPS of a conversation that SEED decides, and compare the views."
  (random (format "said %d" seed))
  (edn-bridge-test-with-chat (conn sent)
    (let ((edn-bridge-said-tests--bridge
           (make-edn-bridge-said-tests-bridge :conn conn)))
      (dotimes (_ steps)
        (edn-bridge-said-tests--step (lambda () (car sent)))
        (should (equal (edn-bridge-said-tests--waiting)
                       (mapcar #'cadr
                               (cl-remove nil (edn-bridge-said-tests--slot
                                               queue)
                                          :key #'caddr)))))
      (while (edn-bridge-said-tests--slot running)
        (edn-bridge-said-tests--end "end-turn"))
      (edn-bridge-chat--on-batch conn)
      (let ((live (edn-bridge-test-transcript)))
        (edn-bridge-said-tests--rebuild)
        (should (equal live (edn-bridge-test-transcript)))
        (should (equal edn-bridge-said--pending nil))))))

(ert-deftest edn-bridge-said-random-views-are-those-of-the-journal ()
  (let ((edn-bridge-chat-page 100000))
    (dotimes (seed (string-to-number (or (getenv "EDN_BRIDGE_SEEDS") "30")))
      (ert-info ((format "%d" seed) :prefix "seed: ")
        (edn-bridge-said-tests--play seed 60)))))

;;;; Random conversations with the program

(defun edn-bridge-said-tests--plain (text)
  "Return TEXT, a transcript, without what no journal has."
  (dolist (regexp '(;; How long a tool ran.
                    " [0-9.]+s$"
                    ;; What the connection has to say.  Its button goes
                    ;; when a turn begins.
                    "\n?.*\\[\\(?:Try\\|Connect\\) again\\]\n"
                    "\n?The connection was lost while .*\n"
                    "\n?Th\\(?:ere is no\\|is message has no\\) answer.*\n"))
    (setq text (replace-regexp-in-string regexp "" text)))
  text)

(defun edn-bridge-said-tests--other-client ()
  "Return a process that is another client of this chat's session."
  (let* ((buffer (generate-new-buffer " *edn-bridge other*"))
         (process (make-process
                   :name "other" :buffer buffer :noquery t
                   :connection-type 'pipe
                   :command (append (list edn-bridge-program "repl")
                                    (seq-take edn-bridge-program-args 2)))))
    (process-send-string
     process (format ":session %s\n" edn-bridge-chat--session-id))
    process))

(defun edn-bridge-said-tests--answered (other)
  "Wait until the process OTHER has the answers to all that it sent."
  (process-send-string other "[:said-tests/end]\n")
  (edn-bridge-test-wait
   (with-current-buffer (process-buffer other)
     (save-excursion
       (goto-char (point-min))
       (search-forward "missing: [:said-tests/end]" nil t)))))

(defun edn-bridge-said-tests--quiet (other)
  "Abort until nothing runs and nothing waits any more in this chat.
What the process OTHER sent comes before."
  (edn-bridge-said-tests--answered other)
  (edn-bridge-test-wait
   (or (and (not (edn-bridge-chat-running-p))
            (edn-bridge-rpc-ready-p edn-bridge-chat--conn)
            (equal 0 (edn-bridge-chat-get :pending-message-count))
            (zerop (hash-table-count
                    (edn-bridge-rpc-connection-pending
                     edn-bridge-chat--conn))))
       (progn (when (edn-bridge-rpc-ready-p edn-bridge-chat--conn)
                (if (edn-bridge-chat-running-p)
                    (edn-bridge-input-abort)
                  ;; The queue after an abort or a restart needs a push.  A
                  ;; message would wait behind it in turn.
                  (edn-bridge-queue-resume)))
              nil))
   60))

(defun edn-bridge-said-tests--play-live (seed steps)
  "Play STEPS of a conversation with the program that SEED decides."
  (random (format "live %d" seed))
  (let ((other (edn-bridge-said-tests--other-client)))
    (unwind-protect
        (progn
          (dotimes (step steps)
            (let ((text (format "text %d" step)))
              (pcase (random 10)
                ((or 0 1 2)
                 (edn-bridge-said-tests-say text #'edn-bridge-input-send))
                ((or 3 4)
                 (edn-bridge-said-tests-say text #'edn-bridge-input-queue))
                (5 (process-send-string
                    other (format "(%s {:message \"their %s\"})\n"
                                  (if (zerop (random 2)) "steer" "follow_up")
                                  text)))
                (6 (edn-bridge-input-abort))
                (7 (when (zerop (random 3))
                     (delete-process other)
                     (edn-bridge-chat-reconnect)
                     (edn-bridge-live-tests-wait-ready)
                     (setq other (edn-bridge-said-tests--other-client))))
                (_ nil)))
            (dotimes (_ (random 8))
              (accept-process-output nil 0.02)))
          (edn-bridge-said-tests--quiet other)
          (let ((live (edn-bridge-said-tests--plain
                       (edn-bridge-test-transcript))))
            (should-not (edn-bridge-said-tests--waiting))
            (edn-bridge-chat-reconnect)
            (edn-bridge-live-tests-wait-ready)
            (should (equal live (edn-bridge-said-tests--plain
                                 (edn-bridge-test-transcript))))))
      (kill-buffer (process-buffer other))
      (delete-process other))))

(ert-deftest edn-bridge-said-live-views-are-those-of-the-journal ()
  (dolist (seed (number-sequence
                 1 (string-to-number (or (getenv "EDN_BRIDGE_SEEDS") "3"))))
    (edn-bridge-live-tests-with-program "mixed.edn"
      (setq edn-bridge-program-args
            (append edn-bridge-program-args '("--yolo")))
      (with-current-buffer (edn-bridge-chat-buffer)
        (edn-bridge-live-tests-wait-ready)
        (ert-info ((format "%d" seed) :prefix "seed: ")
          (let ((edn-bridge-chat-page 100000))
            (edn-bridge-said-tests--play-live seed 25)))))))

(provide 'edn-bridge-said-tests)

;;; edn-bridge-said-tests.el ends here
